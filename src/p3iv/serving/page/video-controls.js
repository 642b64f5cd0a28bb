/** Play, step and the time of the playhead; where the browser cannot play, steps of a second instead. */

import { button, icon, make } from "./dom.js";
import { formatLength, formatTime } from "./format.js";
import { stepFrames, stepSeconds, togglePlay } from "./playback.js";
import { canPlay, lengthOf } from "./store.js";
import { View } from "./view.js";

/** @import {State} from "./types.js" */

export class VideoControls extends View {
  static watches = /** @type {const} */ (["video", "cannotPlay", "playhead", "isPlaying", "upload", "videoProblem", "mode"]);

  #secondBack = button("second-back", "", () => stepSeconds(-1), {
    class: "icon-button",
    "aria-label": "One second back",
  });
  #frameBack = button("frame-back", "", () => stepFrames(-1), { class: "icon-button", "aria-label": "One frame back" });
  #play = button("play", "", togglePlay, { class: "icon-button play", id: "play", "aria-label": "Play" });
  #frameOn = button("frame-on", "", () => stepFrames(1), { class: "icon-button", "aria-label": "One frame on" });
  #secondOn = button("second-on", "", () => stepSeconds(1), { class: "icon-button", "aria-label": "One second on" });
  #now = make("span", { class: "now" });
  #length = make("span", { class: "length" });

  build() {
    const buttons = [this.#secondBack, this.#frameBack, this.#play, this.#frameOn, this.#secondOn];
    const clock = make("p", { class: "clock" }, this.#now, this.#length);
    this.append(make("div", { class: "transport", role: "group", "aria-label": "Playback" }, ...buttons), clock);
  }

  /** @param {State} state */
  render(state) {
    const { video, isPlaying, playhead, upload, videoProblem, mode } = state;
    this.classList.toggle("is-off", !video || Boolean(upload) || Boolean(videoProblem));
    this.#play.hidden = !canPlay(state) && mode === "plan";
    this.#setPlaying(isPlaying);
    this.#now.textContent = formatTime(Math.floor(playhead * 10 + 1e-6) / 10);
    this.#length.textContent = ` / ${formatLength(lengthOf(state))}`;
  }

  /** @param {boolean} isPlaying */
  #setPlaying(isPlaying) {
    const label = isPlaying ? "Pause" : "Play";
    if (this.#play.getAttribute("aria-label") === label && this.#play.dataset.icon) return;
    this.#play.dataset.icon = isPlaying ? "pause" : "play";
    this.#play.setAttribute("aria-label", label);
    this.#play.replaceChildren(icon(this.#play.dataset.icon));
  }
}

customElements.define("video-controls", VideoControls);
