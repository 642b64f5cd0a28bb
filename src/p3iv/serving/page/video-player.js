/** The video element: follows the playhead of the store, and moves it while the video plays. */

import { make } from "./dom.js";
import { store } from "./store.js";

/** @import {State} from "./types.js" */

const SEEK_EPSILON_S = 0.001; // so that a time at the border of two frames shows the second
const MAX_FRAME_S = 0.5;

export class VideoPlayer {
  element = make("video", {
    class: "stage-video",
    preload: "metadata",
    playsinline: true,
    tabindex: -1,
    "aria-label": "The chosen video",
  });

  /** Where the video is to go when it can. @type {number | null} */
  #wanted = null;

  /** The playhead as this player set it. */
  #reported = -1;

  /** The time of the frame before, while frames are measured. @type {number | null} */
  #lastFrame = null;

  constructor() {
    const { element } = this;
    element.addEventListener("loadedmetadata", () => this.#onMetadata());
    element.addEventListener("seeked", () => this.#seek());
    element.addEventListener("error", () => this.#giveUp());
    element.addEventListener("ended", () => store.set({ isPlaying: false }));
    element.addEventListener("play", () => this.#onPlay());
  }

  /**
   * Show what the state says.
   *
   * @param {string | null} address  of the file; null: no video
   * @param {State} state
   */
  follow(address, { playhead, isPlaying }) {
    const { element } = this;
    if (address !== element.getAttribute("src")) this.#load(address);
    if (address === null) return;
    if (playhead !== this.#reported) {
      this.#reported = playhead;
      this.#wanted = playhead;
      this.#seek();
    }
    if (isPlaying && element.paused) element.play().catch(() => store.set({ isPlaying: false }));
    if (!isPlaying && !element.paused) this.#pause();
  }

  /** Stop where the video is, unless it is on its way to another place. */
  #pause() {
    this.element.pause();
    if (this.#wanted === null && !this.element.seeking) this.#tell();
  }

  #tell() {
    this.#reported = this.element.currentTime;
    store.set({ playhead: this.#reported });
  }

  /** @param {string | null} address */
  #load(address) {
    this.#reported = -1;
    if (address !== null) this.element.src = address;
    else if (this.element.hasAttribute("src")) {
      this.element.removeAttribute("src");
      this.element.load();
    }
  }

  /** One seek at a time: the newest wish waits until the present one has ended. */
  #seek() {
    const { element } = this;
    if (this.#wanted === null || element.seeking || element.readyState === 0) return;
    const second = this.#wanted;
    this.#wanted = null;
    element.currentTime = second + SEEK_EPSILON_S;
  }

  #onMetadata() {
    const { video } = store.state;
    if (this.element.videoWidth === 0) this.#giveUp();
    else if (video && video.length_s === null) store.set({ video: { ...video, length_s: this.element.duration } });
    this.#seek();
  }

  #giveUp() {
    if (this.element.hasAttribute("src")) store.set({ cannotPlay: true, isPlaying: false });
  }

  #onPlay() {
    this.#lastFrame = null;
    if ("requestVideoFrameCallback" in this.element)
      this.element.requestVideoFrameCallback((_now, frame) => this.#measure(frame.mediaTime));
    requestAnimationFrame(() => this.#report());
  }

  #report() {
    if (this.element.paused) return;
    this.#tell();
    requestAnimationFrame(() => this.#report());
  }

  /** The shortest distance of two frames is the length of a frame. @param {number} time */
  #measure(time) {
    const distance = this.#lastFrame === null ? 0 : time - this.#lastFrame;
    if (distance > 0.001 && distance < Math.min(MAX_FRAME_S, store.state.frameS ?? MAX_FRAME_S))
      store.set({ frameS: distance });
    this.#lastFrame = time;
    if (!this.element.paused) this.element.requestVideoFrameCallback((_now, frame) => this.#measure(frame.mediaTime));
  }
}
