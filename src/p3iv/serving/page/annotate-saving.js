/**
 * Loading and saving: every change is sent at once, one request at a time. What cannot be sent is sent again.
 *
 * @import {Annotation} from "./types.js"
 */

import { Conflict, getAnnotations, getSteps, putSteps } from "./annotate-api.js";
import { now, saveWith, set, show } from "./annotating.js";
import { getVideo, ServiceError } from "./api.js";
import { announce } from "./dom.js";
import { problemOf } from "./problems.js";
import { store } from "./store.js";

const RETRY_MS = 1500;
const RETRIED = ["unreachable", "busy", "not_ready", "internal", "too_slow"];

/** The version on the server that the page knows. */
let tag = "";

/** What is stored there. @type {Annotation | null} */
let stored = null;

let isSending = false;
let choice = 0;

/** Whether everything is on the server. */
export function isSaved() {
  return stored === null || now().annotation === stored;
}

/** Show a video and its steps. @param {string} id */
export async function openVideo(id) {
  if (!isSaved()) return void announce("Wait until the last change is saved.");
  choice += 1;
  const mine = choice;
  set({ saving: "loading", savingProblem: null, theirs: null, suggestions: null, suggesting: null });
  try {
    const [video, found] = await Promise.all([getVideo(id), getSteps(id, now().annotator)]);
    if (mine !== choice) return;
    [stored, tag] = [found.annotation, found.tag];
    const begin = { playhead: 0, isPlaying: false, cannotPlay: false, frameS: null, videoProblem: null };
    store.set({ video, ...begin });
    show(found.annotation);
    set({ saving: "saved" });
    announce(`Video ${video.name}, ${found.annotation.steps.length} steps.`);
  } catch (error) {
    if (mine !== choice) return;
    stored = null;
    show({ task: "", steps: [] });
    store.set({ video: null, videoProblem: problemOf(error, () => void openVideo(id)) });
  }
}

/** Show the next video, or the one before. @param {1 | -1} direction */
export function openNext(direction) {
  const { videos } = now();
  const at = videos.findIndex(({ id }) => id === store.state.video?.id);
  const next = videos[at + direction];
  if (next) void openVideo(next.id);
  else announce(direction === 1 ? "This is the last video." : "This is the first video.");
}

/** Ask again which videos there are, and which names are in use. */
export async function refresh() {
  const { videos, annotators, steps, tasks } = await getAnnotations(now().annotator);
  set({ videos, annotators: [...new Set([...annotators, now().annotator])], knownSteps: steps, knownTasks: tasks });
}

/** Annotate under another name. @param {string} annotator */
export async function changeAnnotator(annotator) {
  if (!isSaved()) return void announce("Wait until the last change is saved.");
  set({ annotator });
  await refresh();
  if (store.state.video) await openVideo(store.state.video.id);
}

/** Send what has changed, until the server has the newest version. */
async function save() {
  const { video } = store.state;
  if (isSending || !video || stored === null) return;
  isSending = true;
  try {
    while (!isSaved() && now().saving !== "conflict") {
      const { annotation, annotator } = now();
      set({ saving: now().saving === "retrying" ? "retrying" : "saving" });
      tag = (await putSteps(video.id, annotator, annotation, tag)).tag;
      stored = annotation;
    }
    if (isSaved()) confirmSaved(video.id);
  } catch (error) {
    fail(error);
  } finally {
    isSending = false;
  }
}

/** @param {string} id */
function confirmSaved(id) {
  const { annotation, videos, saving } = now();
  if (saving === "retrying") announce("The connection is back; everything is saved.");
  const counts = { task: annotation.task, num_steps: annotation.steps.length };
  set({
    saving: "saved",
    savingProblem: null,
    theirs: null,
    videos: videos.map((each) => (each.id === id ? { ...each, ...counts } : each)),
  });
}

/** @param {unknown} error */
function fail(error) {
  if (error instanceof Conflict) {
    tag = error.tag;
    set({ saving: "conflict", theirs: error.current, edited: null });
    return void announce("These steps were changed in another place. Keep yours, or take the others.");
  }
  const isRetried = error instanceof ServiceError && RETRIED.includes(error.code);
  const { message } = problemOf(error);
  if (isRetried && now().saving !== "retrying") announce(`Not saved: ${message} It is tried again.`);
  set({ saving: isRetried ? "retrying" : "refused", savingProblem: message });
  if (isRetried) window.setTimeout(() => void save(), RETRY_MS);
}

/** Replace what somebody else has stored. */
export function keepMine() {
  set({ saving: "saving", theirs: null });
  stored = { task: "", steps: [] }; // not what the page shows, so that it is sent
  void save();
}

/** Take what somebody else has stored; one's own is given up. */
export function takeTheirs() {
  const { theirs } = now();
  if (!theirs) return;
  stored = theirs;
  show(theirs);
  set({ saving: "saved", theirs: null });
  announce(`${theirs.steps.length} steps were taken over.`);
}

saveWith(() => void save());
window.addEventListener("online", () => void save());
window.addEventListener("beforeunload", (event) => {
  if (!isSaved()) event.preventDefault();
});
