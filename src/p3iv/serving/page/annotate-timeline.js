/** The frames of the video, with the playhead, and below them the steps as bars; the list says the same in words. */

import { now, select } from "./annotating.js";
import { stripAddress } from "./api.js";
import { make, whenAtRest } from "./dom.js";
import { formatLength } from "./format.js";
import { showPicture } from "./pictures.js";
import { seek } from "./playback.js";
import { lengthOf, store } from "./store.js";
import { View } from "./view.js";

/** @import {AnnotatedStep, State, Suggestion} from "./types.js" */

const MAX_FRAMES = 60;
const LABEL_WIDTH = 72;
const MAX_LANES = 3;
const GOLDEN_ANGLE = 137.508; // multiples of it are far apart on the circle of colours
const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];

export class AnnotateTimeline extends View {
  static watches = /** @type {const} */ (["video", "playhead", "annotating"]);

  #strip = make("img", { class: "strip", alt: "", draggable: "false", hidden: true });
  #marked = make("div", { class: "marked", hidden: true });
  #lane = make("div", { class: "lane" }, this.#strip, this.#marked, make("div", { class: "playhead" }));
  #bars = make("div", { class: "bars", "aria-hidden": "true" });
  #ruler = make("div", { class: "ruler", "aria-hidden": "true" });
  #drawn = "";
  #shown = "";
  #redraw = whenAtRest(150, () => this.#draw(store.state));

  build() {
    this.append(this.#lane, this.#bars, this.#ruler);
    this.#lane.addEventListener("pointerdown", (event) => this.#grab(event));
    this.#bars.addEventListener("click", (event) => this.#choose(event));
    new ResizeObserver(() => this.#redraw()).observe(this.#lane);
  }

  /** @param {State} state */
  render(state) {
    const length = lengthOf(state);
    this.classList.toggle("is-off", length === 0);
    if (length === 0) return;
    this.#lane.style.setProperty("--playhead", `${Math.min(1, state.playhead / length)}`);
    this.#renderMarked(state, length);
    this.#renderBars(length);
    this.#draw(state);
  }

  /** The part between the mark and the playhead, or the part that is named. @param {State} state @param {number} length */
  #renderMarked({ playhead }, length) {
    const { marked, edited } = now();
    const [first, last] = edited ? [edited.start_s, edited.end_s] : [marked ?? 0, playhead];
    this.#marked.hidden = edited === null && marked === null;
    this.#marked.style.setProperty("--from", `${Math.min(first, last) / length}`);
    this.#marked.style.setProperty("--to", `${Math.max(first, last) / length}`);
  }

  /** @param {number} length */
  #renderBars(length) {
    const { annotation, selected, suggestions } = now();
    const steps = annotation.steps;
    const text = JSON.stringify([steps, steps.indexOf(selected ?? steps[-1]), suggestions, length]);
    if (text === this.#shown) return;
    this.#shown = text;
    const lanes = lanesOf(steps);
    this.#bars.style.setProperty("--lanes", `${Math.max(1, ...lanes.map((lane) => lane + 1))}`);
    const bars = steps.map((step, index) => barOf(step, lanes[index], length, step === selected));
    const ghosts = (suggestions ?? []).map((part, index) => ghostOf(part, length, index === 0));
    this.#bars.replaceChildren(...ghosts, ...bars);
    bars.forEach((bar, index) => (bar.dataset.index = `${index}`));
  }

  /** @param {State} state */
  #draw(state) {
    const { video } = state;
    const { width, height } = this.#lane.getBoundingClientRect();
    if (!video || width === 0) return;
    const frameWidth = height * (video.width && video.height ? video.width / video.height : 16 / 9);
    const number = Math.min(MAX_FRAMES, Math.max(1, Math.round(width / frameWidth)));
    const drawn = `${video.id} ${number} ${Math.floor(width / LABEL_WIDTH)}`;
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    void showPicture(this.#strip, video.has_frames ? stripAddress(video.id, number, frameWidth) : null);
    this.#ruler.replaceChildren(...rulerLabels(lengthOf(state), width));
  }

  /** @param {PointerEvent} event */
  #grab(event) {
    if (event.button !== 0) return;
    const move = (/** @type {PointerEvent} */ at) => seek(Math.round(this.#secondAt(at.clientX) * 10) / 10);
    event.preventDefault();
    this.#lane.setPointerCapture(event.pointerId);
    this.#lane.addEventListener("pointermove", move);
    this.#lane.addEventListener("lostpointercapture", () => this.#lane.removeEventListener("pointermove", move), {
      once: true,
    });
    move(event);
  }

  /** @param {MouseEvent} event */
  #choose(event) {
    const bar = event.target instanceof Element ? event.target.closest("[data-index]") : null;
    const step = now().annotation.steps[Number(bar?.getAttribute("data-index") ?? -1)];
    if (step) select(step);
    else seek(this.#secondAt(event.clientX));
  }

  /** @param {number} clientX */
  #secondAt(clientX) {
    const { left, width } = this.#lane.getBoundingClientRect();
    return ((clientX - left) / width) * lengthOf(store.state);
  }
}

/** The row of each step: the first in which nothing overlaps it. @param {AnnotatedStep[]} steps */
function lanesOf(steps) {
  /** @type {number[]} */
  const ends = [];
  return steps.map(({ start_s, end_s }) => {
    const free = ends.findIndex((end) => end <= start_s + 1e-6);
    const lane = Math.min(free < 0 ? ends.length : free, MAX_LANES - 1);
    ends[lane] = end_s;
    return lane;
  });
}

/** @param {HTMLElement} element @param {{start_s: number, end_s: number}} part @param {number} length */
function place(element, { start_s, end_s }, length) {
  element.style.setProperty("--from", `${start_s / length}`);
  element.style.setProperty("--to", `${Math.min(1, end_s / length)}`);
  return element;
}

/** @param {AnnotatedStep} step @param {number} lane @param {number} length @param {boolean} isSelected */
function barOf(step, lane, length, isSelected) {
  const bar = make("div", { class: isSelected ? "step-bar is-selected" : "step-bar", title: step.step }, step.step);
  bar.style.setProperty("--lane", `${lane}`);
  bar.style.setProperty("--hue", `${hueOf(step.step)}`);
  return place(bar, step, length);
}

/** @param {Suggestion} part @param {number} length @param {boolean} isNext */
function ghostOf(part, length, isNext) {
  return place(make("div", { class: isNext ? "ghost is-next" : "ghost" }, part.step ?? ""), part, length);
}

/** The same colour for the same name, and another one for the next name. @param {string} name */
export function hueOf(name) {
  return Math.round((20 + now().knownSteps.indexOf(name) * GOLDEN_ANGLE) % 360);
}

/** @param {number} length @param {number} width */
function rulerLabels(length, width) {
  const tick = TICKS_S.find((one) => (length / one) * LABEL_WIDTH <= width) ?? length;
  return Array.from({ length: Math.floor(length / tick + 1e-6) + 1 }, (_, index) => {
    const label = make("span", {}, formatLength(index * tick));
    label.style.setProperty("--at", `${(index * tick) / length}`);
    return label;
  });
}

customElements.define("annotate-timeline", AnnotateTimeline);
