/**
 * Choosing, uploading and deleting videos and pictures.
 *
 * @import {End, Moment, Video} from "./types.js"
 */

import { deleteVideo, getVideo, getVideos, isAbort, ServiceError } from "./api.js";
import { announce } from "./dom.js";
import { formatBytes } from "./format.js";
import { planSoon, setMoment } from "./planning.js";
import { problemOf } from "./problems.js";
import { secondOf, store } from "./store.js";
import { uploadPicture, uploadVideo } from "./uploading.js";

const PICTURE_NAME = /\.(jpe?g|png|webp|bmp|tiff?|gif)$/i;
export const ACCEPTED_VIDEOS = "video/*,.mp4,.m4v,.mov,.mkv,.webm,.avi,.ts,.mts,.mpg,.mpeg,.flv,.wmv,.ogv";
export const ACCEPTED_PICTURES = "image/*";

/** What is asked about one video is not meant for the next. */
const NEW_QUERY = { goalText: "", procedure: null, horizon: null, conditions: [] };

/** The newest choice; an older one that arrives later is dropped. */
let choice = 0;

/** The upload that is under way. */
let sending = new AbortController();

/**
 * Show a video, with start and goal if they are known.
 *
 * @param {string} id
 * @param {{start?: Moment | null, goal?: Moment | null}} [moments]
 */
export async function chooseVideo(id, { start = null, goal = null } = {}) {
  choice += 1;
  const mine = choice;
  try {
    const video = await getVideo(id); // the list does not know the length and the type of every video
    if (mine === choice) open(video, start, goal);
  } catch (error) {
    if (mine === choice) failVideo(error, () => void chooseVideo(id, { start, goal }));
  }
}

/** Show a video that somebody chose, without moments. @param {string} id */
export async function chooseOther(id) {
  if (store.state.video?.id !== id) store.set(NEW_QUERY);
  await chooseVideo(id);
}

/** @param {Video} video @param {Moment | null} start @param {Moment | null} goal */
function open(video, start, goal) {
  const first = within(start, video);
  store.set({
    video,
    start: first,
    goal: within(goal, video),
    playhead: secondOf(first) ?? 0,
    isPlaying: false,
    cannotPlay: false,
    frameS: null,
    answer: null,
    videoProblem: null,
  });
  announce(`Video ${video.name}`);
  planSoon();
}

/** @param {Moment | null} moment @param {Video} video @returns {Moment | null} */
function within(moment, video) {
  if (moment === null || !("t" in moment) || video.length_s === null) return moment;
  return { t: Math.min(moment.t, video.length_s) };
}

/** @param {unknown} error @param {() => void} retry */
function failVideo(error, retry) {
  const videoProblem = problemOf(error, retry);
  store.set({ videoProblem, upload: null });
  announce(videoProblem.message);
}

/** Ask again which videos there are. */
export async function refreshVideos() {
  try {
    store.set({ videos: await getVideos() });
  } catch (error) {
    failVideo(error, () => void refreshVideos());
  }
}

/** Delete an uploaded video. @param {Video} video */
export async function removeVideo(video) {
  try {
    await deleteVideo(video.id);
  } catch (error) {
    if (!(error instanceof ServiceError && error.code === "not_found"))
      return failVideo(error, () => void removeVideo(video));
  }
  store.set({ videos: store.state.videos.filter(({ id }) => id !== video.id) });
  announce(`${video.name} was deleted`);
  if (store.state.video?.id === video.id) closeVideo();
}

/** Back to a page without a video. */
export function closeVideo() {
  store.set({
    video: null,
    start: null,
    goal: null,
    answer: null,
    reasons: null,
    videoProblem: null,
    isPlaying: false,
    mode: "plan",
  });
  planSoon();
}

/** @param {File} file */
export function isPicture(file) {
  return file.type.startsWith("image/") || (!file.type && PICTURE_NAME.test(file.name));
}

/**
 * Use files that somebody chose or dropped: a video is uploaded and shown; a picture becomes start or goal.
 *
 * @param {File[]} files
 * @param {End | null} [end]  where the files were dropped on a moment
 */
export async function addFiles(files, end = null) {
  const pictures = files.filter(isPicture);
  const video = files.find((file) => !isPicture(file));
  if (video) await addVideo(video);
  const free = freeEnds(end);
  for (const [index, picture] of pictures.slice(0, free.length).entries()) await addPicture(picture, free[index]);
  if (pictures.length && !free.length) {
    const message = "Start and goal are set already.";
    store.set({ videoProblem: { message, hint: "Drop the picture on Start or on Goal to replace it.", retry: null } });
  }
}

/** The ends that pictures go to, in this order. @param {End | null} end @returns {End[]} */
function freeEnds(end) {
  if (end === "start") return ["start", "goal"];
  if (end === "goal") return ["goal"];
  /** @type {End[]} */
  const ends = ["start", "goal"];
  return ends.filter((one) => store.state[one] === null);
}

/** @param {File} file */
async function addVideo(file) {
  const most = store.state.info?.limits.upload_bytes ?? Infinity;
  sending.abort();
  const mine = new AbortController();
  sending = mine;
  const upload = { name: file.name, share: 0, cancel: () => mine.abort() };
  try {
    refuseLarge(file, most);
    store.set({ upload, videoProblem: null, isPlaying: false });
    const onProgress = (/** @type {number} */ share) => store.set({ upload: { ...upload, share } });
    const video = await uploadVideo(file, { onProgress, signal: mine.signal });
    const others = store.state.videos.filter(({ id }) => id !== video.id);
    store.set({ upload: null, videos: [...others, video] });
    await chooseOther(video.id);
  } catch (error) {
    if (sending !== mine) return;
    if (isAbort(error)) store.set({ upload: null });
    else failVideo(error, () => void addVideo(file));
  }
}

/** @param {File} file @param {End} end */
async function addPicture(file, end) {
  try {
    refuseLarge(file, store.state.info?.limits.picture_bytes ?? Infinity);
    const { id } = await uploadPicture(file);
    setMoment(end, { picture: id, name: file.name });
    announce(`${end} is the picture ${file.name}`);
  } catch (error) {
    failVideo(error, () => void addPicture(file, end));
  }
}

/** @param {File} file @param {number} most */
function refuseLarge(file, most) {
  if (file.size <= most) return;
  const hint = "Cut it, or make it smaller: a height of 360 pixels is enough.";
  throw new ServiceError(
    "too_large",
    `${file.name} has ${formatBytes(file.size)}; at most ${formatBytes(most)} can be sent.`,
    hint,
  );
}
