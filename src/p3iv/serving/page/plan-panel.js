/** The right half of the page: what to do first, how planning goes on, what went wrong, or the plans. */

import { queryWayBack } from "./conditions.js";
import { button, find, make } from "./dom.js";
import { startFollowing, stopFollowing } from "./mode.js";
import { cancelPlanning, setMoment } from "./planning.js";
import { problemBox } from "./problems.js";
import { goalKindOf, hasGoal, lengthOf, store } from "./store.js";
import { openVideos } from "./video-bar.js";
import { View } from "./view.js";

/** @import {Problem, Progress, State} from "./types.js" */

const NARROW = window.matchMedia("(max-width: 899px)"); // one column
const OTHER_VIDEO = { text: "Choose another video", run: openVideos };

export class PlanPanel extends View {
  static watches = /** @type {const} */ ([
    "info",
    "mode",
    "video",
    "start",
    "goal",
    "goalKind",
    "goalText",
    "planning",
    "answer",
    "chosen",
    "planProblem",
    "videoProblem",
  ]);

  #title = make("h2", { id: "plan-title" });
  #progress = make("progress", { class: "plan-progress", "aria-label": "Planning" });
  #stage = make("span", { class: "stage-words" });
  #follow = keyButton("follow", "Follow", "F", startFollowing, { class: "button", id: "follow" });
  #stop = keyButton("stop", "Stop", "Esc", stopFollowing, { class: "button", id: "stop-following" });
  #problem = make("div", { class: "panel-problem" });
  #skeleton = make("div", { class: "skeleton", "aria-hidden": "true" });

  /** @type {Problem | null} */
  #shownProblem = null;

  #isFollowing = false;

  build() {
    const cancel = button(null, "Cancel", cancelPlanning, { class: "button small", id: "cancel-planning" });
    const status = make("div", { class: "status" }, this.#stage, cancel);
    const state = document.createElement("follow-state");
    const top = make("div", { class: "panel-top" }, this.#title, status, state, this.#follow, this.#stop);
    this.prepend(top, this.#progress);
    find(this, "query-options").after(this.#problem, this.#skeleton);
    find(this, "#whole-video").addEventListener("click", useWholeVideo);
  }

  /** @param {State} state */
  render(state) {
    this.#renderFollowing(state);
    if (state.mode === "follow" && this.dataset.shows === "following") return;
    const { planning, answer, chosen, planProblem } = state;
    const shows = whatToShow(state);
    this.dataset.shows = shows;
    this.toggleAttribute("data-planning", planning !== null);
    find(this, ".results").setAttribute("aria-busy", `${planning !== null}`);
    this.#title.textContent = titleOf(shows, chosen, answer?.plans.length ?? 0);
    this.#renderProgress(planning);
    this.#renderGuide(state);
    this.#renderProblem(planProblem, state);
    fillSkeleton(this.#skeleton, state.horizon ?? Math.min(...(state.info?.horizons.slice(-1) ?? []), 3));
  }

  /** @param {State} state */
  #renderFollowing(state) {
    const isOn = state.mode === "follow";
    const hadFocus = [this.#follow, this.#stop].some((one) => one === document.activeElement);
    this.#follow.hidden = isOn || !state.info?.can_follow || !state.video;
    this.#stop.hidden = !isOn;
    if (this.#isFollowing !== isOn) this.#turn(isOn);
    if (hadFocus) (isOn ? this.#stop : this.#follow).focus();
  }

  /** Following shows first what happens, then what is asked. @param {boolean} isOn */
  #turn(isOn) {
    this.#isFollowing = isOn;
    const options = find(this, "query-options");
    if (isOn) find(this, "follow-panel").after(options);
    else this.#progress.after(options);
    if (isOn && NARROW.matches) window.requestAnimationFrame(() => this.scrollIntoView({ block: "start" }));
  }

  /** @param {Progress | null} planning */
  #renderProgress(planning) {
    const isCounted = planning?.stage === "encoding" && planning.total > 0;
    this.#stage.textContent = planning ? wordsOf(planning) : "";
    if (isCounted) this.#progress.value = planning.done / planning.total;
    else this.#progress.removeAttribute("value");
  }

  /** @param {State} state */
  #renderGuide(state) {
    const { video, start } = state;
    const done = { video: video !== null, start: start !== null, goal: hasGoal(state) };
    for (const [name, isDone] of Object.entries(done)) {
      const item = find(this, `[data-guide="${name}"]`);
      item.classList.toggle("is-done", isDone);
      find(item, ".sr").textContent = isDone ? "Done: " : "";
    }
    find(this, "#whole-video").hidden = video === null || goalKindOf(state) !== "moment";
  }

  /** @param {Problem | null} problem @param {State} state */
  #renderProblem(problem, state) {
    if (problem === this.#shownProblem) return;
    this.#shownProblem = problem;
    this.#problem.replaceChildren();
    if (problem) this.#problem.append(problemBox(problem, queryWayBack(problem, state) ?? OTHER_VIDEO));
  }
}

/**
 * A button that says its key.
 *
 * @param {string} name  of the icon
 * @param {string} text
 * @param {string} key
 * @param {() => void} run
 * @param {Record<string, string>} attributes
 */
function keyButton(name, text, key, run, attributes) {
  const shortcut = key === "Esc" ? "Escape" : key;
  const element = button(name, text, run, { ...attributes, "aria-keyshortcuts": shortcut, hidden: true });
  element.append(make("kbd", { "aria-hidden": "true" }, key));
  return element;
}

/** @typedef {"guide" | "waiting" | "problem" | "plans" | "following"} Shows */

/** @param {State} state @returns {Shows} */
function whatToShow(state) {
  const { info, start, video, answer, planProblem, videoProblem, mode } = state;
  if (mode === "follow") return "following";
  if (planProblem) return "problem";
  if (answer) return "plans";
  if (start && hasGoal(state)) return "waiting";
  return info || video || videoProblem ? "guide" : "waiting";
}

/** @param {Shows} shows @param {number} chosen @param {number} number of plans */
function titleOf(shows, chosen, number) {
  if (shows === "following") return "Following";
  if (shows === "guide") return "Three things to do";
  if (shows === "problem") return "No plan";
  if (shows === "waiting") return "Planning";
  return chosen === 0 ? "Recommended plan" : `Plan ${chosen + 1} of ${number}`;
}

/** @param {Progress} progress */
function wordsOf({ stage, done, total }) {
  if (stage === "planning") return "Planning…";
  return total > 1 ? `Looking at the video: ${done} of ${total}` : "Looking at the video…";
}

/** Set what is not set yet to the ends of the video. */
function useWholeVideo() {
  const { state } = store;
  if (!state.start) setMoment("start", { t: 0 });
  if (!state.goal) setMoment("goal", { t: lengthOf(state) });
}

/**
 * Grey rows where the steps will be, so that nothing moves when they come.
 *
 * @param {HTMLElement} skeleton
 * @param {number} number
 */
function fillSkeleton(skeleton, number) {
  if (skeleton.childElementCount === number) return;
  skeleton.replaceChildren(...Array.from({ length: number }, () => make("div")));
}

customElements.define("plan-panel", PlanPanel);
