/** The frames of the video in a strip, with the playhead and two handles: start and goal. */

import { stripAddress } from "./api.js";
import { find, make, whenAtRest } from "./dom.js";
import { formatLength, formatTime, spokenTime } from "./format.js";
import { showPicture } from "./pictures.js";
import { moveMoment } from "./planning.js";
import { clampTime, seek } from "./playback.js";
import { frameLength, goalKindOf, handleAt, lengthOf, store } from "./store.js";
import { View } from "./view.js";

/** @import {End, State} from "./types.js" */

const MAX_FRAMES = 60; // of a strip
const LABEL_WIDTH = 72; // of a time below the strip, with its distance to the next
const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];
const LARGE_STEPS = 10; // PageUp and PageDown move by a tenth of the video

export class VideoTimeline extends View {
  static watches = /** @type {const} */ (["info", "video", "playhead", "start", "goal", "goalKind", "mode"]);

  #strip = make("img", { class: "strip", alt: "", draggable: "false", hidden: true });
  #handles = { start: handle("start"), goal: handle("goal") };
  #ruler = make("div", { class: "ruler", "aria-hidden": "true" });
  #lane = make("div", { class: "lane" });

  /** The video that is drawn. @type {State["video"]} */
  #video = null;

  /** What strip and ruler show: the video, the number of frames and of times. */
  #drawn = "";

  #redraw = whenAtRest(150, () => this.#draw(store.state));

  build() {
    const shades = ["before", "range", "after"].map((name) => make("div", { class: `shade ${name}` }));
    const playhead = make("div", { class: "playhead" });
    this.#lane.append(this.#strip, ...shades, playhead, this.#handles.start, this.#handles.goal);
    this.append(this.#lane, document.createElement("follow-track"), this.#ruler);
    this.#lane.addEventListener("pointerdown", (event) => this.#grab(event));
    new ResizeObserver(() => this.#redraw()).observe(this.#lane);
  }

  /** @param {State} state */
  render(state) {
    const length = lengthOf(state);
    this.hidden = state.info !== null && state.video === null;
    this.classList.toggle("is-off", length === 0);
    if (length === 0) return;
    this.#place("--playhead", state.playhead / length);
    for (const end of /** @type {End[]} */ (["start", "goal"])) this.#renderHandle(state, end);
    const hasGoal = goalKindOf(state) === "moment";
    this.#handles.goal.hidden = !hasGoal;
    this.#handles.start.hidden = state.mode === "follow";
    this.classList.toggle("no-goal", !hasGoal);
    const first = state.mode === "follow" ? 0 : handleAt(state, "start");
    const last = hasGoal ? handleAt(state, "goal") : length;
    this.#place("--first", Math.min(first, last) / length);
    this.#place("--last", Math.max(first, last) / length);
    this.classList.toggle("is-reversed", first > last);
    if (state.video !== this.#video) this.#draw(state);
  }

  /** @param {State} state @param {End} end */
  #renderHandle(state, end) {
    const second = handleAt(state, end);
    const element = this.#handles[end];
    const moment = state[end];
    this.#place(`--${end}-at`, second / lengthOf(state));
    element.classList.toggle("is-unset", moment === null || !("t" in moment));
    element.setAttribute("aria-valuemax", `${lengthOf(state)}`);
    element.setAttribute("aria-valuenow", `${second}`);
    element.setAttribute("aria-valuetext", spokenMoment(state, end));
    find(element, ".bubble").textContent = formatTime(second);
  }

  /** @param {string} name @param {number} share */
  #place(name, share) {
    this.#lane.style.setProperty(name, `${Math.min(1, Math.max(0, share))}`);
  }

  /** Draw strip and ruler where the video or the width is another. @param {State} state */
  #draw(state) {
    const { video } = state;
    const { width, height } = this.#lane.getBoundingClientRect();
    if (!video || width === 0) return;
    this.#video = video;
    const frameWidth = height * aspectOf(video);
    const number = Math.min(MAX_FRAMES, Math.max(1, Math.round(width / frameWidth)));
    const drawn = `${video.id} ${number} ${Math.floor(width / LABEL_WIDTH)}`;
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    void showPicture(this.#strip, video.has_frames ? stripAddress(video.id, number, frameWidth) : null);
    this.#ruler.replaceChildren(...rulerLabels(lengthOf(state), width));
  }

  /** Drag a handle, or the playhead where there is no handle. @param {PointerEvent} event */
  #grab(event) {
    if (event.button !== 0 || !(event.target instanceof Element)) return;
    const grabbed = event.target.closest(".handle");
    const end = /** @type {End | null} */ (grabbed?.getAttribute("data-end") ?? null);
    const dragged = end ? this.#handles[end] : this.#lane;
    const offset = end ? event.clientX - this.#clientX(handleAt(store.state, end)) : 0;
    const move = (/** @type {PointerEvent} */ at) => this.#move(end, this.#secondAt(at.clientX - offset));
    const stop = () => {
      dragged.classList.remove("is-dragged");
      dragged.removeEventListener("pointermove", move);
    };
    event.preventDefault();
    dragged.setPointerCapture(event.pointerId);
    dragged.classList.add("is-dragged");
    dragged.addEventListener("pointermove", move);
    dragged.addEventListener("lostpointercapture", stop, { once: true });
    if (end) this.#raise(end);
    else move(event);
  }

  /** @param {End} end */
  #raise(end) {
    this.#handles[end].focus({ preventScroll: true });
    this.dataset.top = end; // of two handles in one place, the one that was touched last is on top
  }

  /** @param {End | null} end @param {number} second */
  #move(end, second) {
    const tenth = clampTime(Math.round(second * 10) / 10);
    if (end) moveMoment(end, tenth);
    else seek(tenth);
  }

  /** @param {number} clientX */
  #secondAt(clientX) {
    const { left, width } = this.#lane.getBoundingClientRect();
    return ((clientX - left) / width) * lengthOf(store.state);
  }

  /** @param {number} second */
  #clientX(second) {
    const { left, width } = this.#lane.getBoundingClientRect();
    return left + (second / lengthOf(store.state)) * width;
  }
}

/** @param {End} end */
function handle(end) {
  const element = make(
    "div",
    {
      class: `handle ${end}`,
      id: `${end}-handle`,
      "data-end": end,
      role: "slider",
      tabindex: 0,
      "aria-label": end === "start" ? "Start" : "Goal",
      "aria-valuemin": 0,
    },
    make("span", { class: "bubble", "aria-hidden": "true" }),
  );
  element.addEventListener("keydown", (event) => onKey(event, end));
  return element;
}

/** @param {KeyboardEvent} event @param {End} end */
function onKey(event, end) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const second = keyTarget(event, handleAt(store.state, end));
  if (second === null) return;
  event.preventDefault();
  moveMoment(end, second);
}

/** Where a key moves a handle. @param {KeyboardEvent} event @param {number} now @returns {number | null} */
function keyTarget(event, now) {
  const length = lengthOf(store.state);
  const step = event.shiftKey ? 1 : frameLength(store.state);
  const targets = {
    ArrowLeft: now - step,
    ArrowDown: now - step,
    ArrowRight: now + step,
    ArrowUp: now + step,
    PageDown: now - length / LARGE_STEPS,
    PageUp: now + length / LARGE_STEPS,
    Home: 0,
    End: length,
    Enter: now,
  };
  return event.key in targets ? targets[/** @type {keyof typeof targets} */ (event.key)] : null;
}

/** @param {State} state @param {End} end */
function spokenMoment(state, end) {
  const moment = state[end];
  if (moment && "picture" in moment) return `${end} is a picture`;
  const where = spokenTime(handleAt(state, end));
  return moment ? `${end} at ${where}` : `${end} is not set; press Enter for ${where}`;
}

/** Width over height of a frame. @param {{width: number | null, height: number | null}} video */
function aspectOf({ width, height }) {
  return width && height ? width / height : 16 / 9;
}

/** @param {number} length @param {number} width */
function rulerLabels(length, width) {
  const tick = TICKS_S.find((one) => (length / one) * LABEL_WIDTH <= width) ?? length;
  const number = Math.floor(length / tick + 1e-6);
  return Array.from({ length: number + 1 }, (_, index) => {
    const label = make("span", {}, formatLength(index * tick));
    label.style.setProperty("--at", `${(index * tick) / length}`);
    return label;
  });
}

customElements.define("video-timeline", VideoTimeline);
