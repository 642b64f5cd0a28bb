/** Shows the chosen video at the playhead, or what there is instead: an invitation, an upload, a problem. */

import { fileAddress, frameAddress } from "./api.js";
import { button, find, icon, make, whenAtRest } from "./dom.js";
import { counted, formatTime } from "./format.js";
import { showPicture } from "./pictures.js";
import { togglePlay } from "./playback.js";
import { problemBox } from "./problems.js";
import { lengthOf, showsFrames, store } from "./store.js";
import { fileButton, openVideos } from "./video-bar.js";
import { VideoPlayer } from "./video-player.js";
import { View } from "./view.js";

/** @import {State} from "./types.js" */

const FRAME_REST_MS = 100;
const FRAME_WIDTH = 640;

export class VideoStage extends View {
  static watches = /** @type {const} */ ([
    "info",
    "video",
    "videos",
    "cannotPlay",
    "playhead",
    "isPlaying",
    "upload",
    "videoProblem",
  ]);

  #player = new VideoPlayer();
  #frame = make("img", { class: "stage-frame", hidden: true });
  #note = make("p", { class: "stage-note" });
  #message = make("div", { class: "stage-message" });
  #upload = uploadBox();

  /** What the message is about, so that it is made only once. @type {unknown} */
  #about = null;

  #showFrame = whenAtRest(FRAME_REST_MS, (/** @type {string} */ address) => void showPicture(this.#frame, address));

  build() {
    const { element } = this.#player;
    element.addEventListener("click", togglePlay);
    this.append(element, this.#frame, this.#note, this.#upload, this.#message);
  }

  /** @param {State} state */
  render(state) {
    const shows = whatToShow(state);
    this.dataset.shows = shows;
    this.#player.follow(shows === "video" ? fileAddress(state.video?.id ?? "") : null, state);
    this.#renderFrame(state, shows);
    this.#renderUpload(state);
    this.#renderMessage(state, shows);
    this.#note.textContent = noteOf(shows);
  }

  /** @param {State} state @param {Shows} shows */
  #renderFrame(state, shows) {
    if (shows !== "frames" || !state.video) {
      this.#showFrame.cancel();
      void showPicture(this.#frame, null);
      return;
    }
    const second = Math.min(state.playhead, lengthOf(state));
    this.#frame.alt = `The video at ${formatTime(second)}`;
    this.#showFrame(frameAddress(state.video.id, second, FRAME_WIDTH));
  }

  /** @param {State} state */
  #renderUpload({ upload }) {
    if (!upload) return;
    const percent = Math.round(100 * upload.share);
    find(this.#upload, ".upload-name").textContent = upload.name;
    find(this.#upload, ".upload-share").textContent =
      upload.share < 1 ? `${percent}\u00a0% sent` : "Reading the video…";
    find(this.#upload, "progress").setAttribute("value", `${upload.share}`);
  }

  /** @param {State} state @param {Shows} shows */
  #renderMessage(state, shows) {
    const about = shows === "problem" ? state.videoProblem : shows === "empty" ? state.videos : shows;
    if (about === this.#about) return;
    this.#about = about;
    this.#message.replaceChildren();
    if (shows === "problem" && state.videoProblem) this.#message.append(problemBox(state.videoProblem, wayBack(state)));
    if (shows === "empty") this.#message.append(...invitation(state));
    if (shows === "loading") this.#message.append(make("p", { class: "note late" }, "The service is starting…"));
    if (shows === "nothing")
      this.#message.append(
        icon("film"),
        make("p", {}, "This server has the features of this video, not its pictures. Planning works."),
      );
  }
}

/** @typedef {"problem" | "upload" | "loading" | "empty" | "nothing" | "frames" | "video"} Shows */

/** @param {State} state @returns {Shows} */
function whatToShow(state) {
  if (state.videoProblem) return "problem";
  if (state.upload) return "upload";
  if (!state.info) return "loading";
  if (!state.video) return "empty";
  if (!state.video.has_frames) return "nothing";
  return showsFrames(state) ? "frames" : "video";
}

/** @param {Shows} shows */
function noteOf(shows) {
  return shows === "frames" ? "Videos of this format are shown as single frames." : "";
}

/** @param {State} state */
function wayBack({ video, info }) {
  const close = () => store.set({ videoProblem: null });
  if (video) return { text: `Back to ${video.name}`, run: close };
  if (!info) return { text: "Reload the page", run: () => window.location.reload() };
  return { text: "Choose another video", run: () => (close(), openVideos()) };
}

/** @param {State} state */
function invitation({ info, videos }) {
  const known = button("film", `Choose one of ${counted(videos.length, "video")}`, openVideos, { class: "button" });
  if (info?.encoder === null) return [icon("film"), make("p", { class: "note" }, info.encoder_problem ?? ""), known];
  return [
    icon("drop"),
    make("p", { class: "invitation" }, "Drop a video anywhere on this page"),
    make(
      "div",
      { class: "buttons" },
      fileButton("Choose a file", { class: "button primary", id: "choose-first-file" }),
      videos.length ? known : null,
    ),
    make("p", { class: "note" }, "It stays on the server that runs this page and is deleted after a while."),
  ];
}

function uploadBox() {
  return make(
    "div",
    { class: "upload" },
    make("p", { class: "upload-name" }),
    make("progress", { max: 1, value: 0, "aria-label": "Upload" }),
    make("p", { class: "upload-share note" }),
    button(null, "Cancel", () => store.state.upload?.cancel(), { class: "button", id: "cancel-upload" }),
  );
}

customElements.define("video-stage", VideoStage);
