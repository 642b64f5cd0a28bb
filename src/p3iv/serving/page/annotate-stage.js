/** The video that is annotated, or frames of it where the browser cannot play it. */

import { fileAddress, frameAddress } from "./api.js";
import { make, whenAtRest } from "./dom.js";
import { formatTime } from "./format.js";
import { showPicture } from "./pictures.js";
import { togglePlay } from "./playback.js";
import { problemBox } from "./problems.js";
import { canPlay, showsFrames } from "./store.js";
import { VideoPlayer } from "./video-player.js";
import { View } from "./view.js";

/** @import {Problem, State} from "./types.js" */

const FRAME_REST_MS = 100;
const FRAME_WIDTH = 640;

export class AnnotateStage extends View {
  static watches = /** @type {const} */ (["video", "cannotPlay", "playhead", "isPlaying", "videoProblem"]);

  #player = new VideoPlayer();
  #frame = make("img", { class: "stage-frame", hidden: true });
  #message = make("div", { class: "stage-message" });
  #showFrame = whenAtRest(FRAME_REST_MS, (/** @type {string} */ address) => void showPicture(this.#frame, address));

  /** @type {Problem | null} */
  #problem = null;

  build() {
    this.#player.element.addEventListener("click", togglePlay);
    this.append(this.#player.element, this.#frame, this.#message);
  }

  /** @param {State} state */
  render(state) {
    const { video, playhead, videoProblem } = state;
    this.dataset.shows = videoProblem ? "problem" : canPlay(state) ? "video" : showsFrames(state) ? "frames" : "loading";
    this.#player.follow(canPlay(state) && video ? fileAddress(video.id) : null, state);
    if (video && showsFrames(state)) {
      this.#frame.alt = `The video at ${formatTime(playhead)}`;
      this.#showFrame(frameAddress(video.id, playhead, FRAME_WIDTH));
    } else void showPicture(this.#frame, null);
    if (videoProblem === this.#problem) return;
    this.#problem = videoProblem;
    const reload = { text: "Reload the page", run: () => window.location.reload() };
    this.#message.replaceChildren(...(videoProblem ? [problemBox(videoProblem, reload)] : []));
  }
}

customElements.define("annotate-stage", AnnotateStage);
