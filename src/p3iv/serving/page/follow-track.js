/** Below the frames of the timeline: how far the video is computed, and the steps that are done and under way. */

import { make } from "./dom.js";
import { momentAt } from "./following.js";
import { lengthOf } from "./store.js";
import { View } from "./view.js";

/** @import {FollowedMoment, State} from "./types.js" */

export class FollowTrack extends View {
  static watches = /** @type {const} */ (["mode", "following", "playhead", "video"]);

  #computed = make("div", { class: "computed" });
  #steps = make("div", { class: "track-steps" });

  /** @type {FollowedMoment | null} */
  #shown = null;

  build() {
    this.setAttribute("aria-hidden", "true"); // the lists say the same in words
    this.append(this.#computed, this.#steps);
  }

  /** @param {State} state */
  render(state) {
    const { mode, following } = state;
    const length = lengthOf(state);
    this.hidden = mode !== "follow";
    if (!following || length === 0) return;
    const share = following.isWhole ? 1 : Math.min(1, following.moments.length / length);
    this.#computed.style.setProperty("--share", `${share}`);
    const { moment } = momentAt(state);
    if (moment === this.#shown) return;
    this.#shown = moment;
    this.#steps.replaceChildren(...(moment ? segmentsOf(moment, following.moments, length) : []));
  }
}

/** @param {FollowedMoment} moment @param {FollowedMoment[]} moments @param {number} length */
function segmentsOf({ second, done, now }, moments, length) {
  const steps = done.map(({ step, start_s, end_s }) => segment(step, start_s, end_s, length));
  const step = now[0]?.step ?? null;
  if (step === null) return steps;
  let first = second;
  while (moments[first - 1]?.now[0]?.step === step) first -= 1;
  const last = segment(step, first, second + 1, length);
  last.classList.add("is-now");
  return [...steps, last];
}

/** @param {string} step @param {number} start @param {number} end @param {number} length */
function segment(step, start, end, length) {
  const element = make("span", { title: step });
  element.style.setProperty("--from", `${start / length}`);
  element.style.setProperty("--to", `${Math.min(1, end / length)}`);
  return element;
}

customElements.define("follow-track", FollowTrack);
