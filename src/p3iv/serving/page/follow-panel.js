/** What is done, under way and left where the playhead is, while a video is followed. */

import { queryWayBack } from "./conditions.js";
import { button, find, make } from "./dom.js";
import "./follow-track.js";
import { momentAt } from "./following.js";
import { counted, formatLength, percent, roundPercent } from "./format.js";
import { stopFollowing } from "./mode.js";
import { arrow } from "./plan-rows.js";
import { problemBox } from "./problems.js";
import { goalKindOf, lengthOf } from "./store.js";
import { View } from "./view.js";

/** @import {FollowedMoment, Problem, State} from "./types.js" */

const NOW_ROWS = 3;
const DONE_ROWS = 4; // the last ones; the others unfold
const OTHER_PLANS = 4;
const SPACE = "\u00a0";

/** Before the first moment has come. */
const NOTHING = { second: 0, now: [{ step: "Looking at the video…", probability: 0 }] };

export class FollowPanel extends View {
  static watches = /** @type {const} */ (["mode", "following", "playhead", "goal", "goalKind", "goalText", "video"]);

  #problem = make("div", { class: "follow-problem" });
  #done = make("ol", { class: "done-steps", role: "list", "aria-labelledby": "done-title" });
  #nothing = make("p", { class: "note" }, "Nothing yet.");
  #earlier = button(null, "", () => this.#unfold(), {
    class: "button small",
    id: "earlier-steps",
    "aria-expanded": "false",
    hidden: true,
  });
  #now = make("ol", { class: "now-steps", role: "list", "aria-labelledby": "now-title" });
  #clock = make("span", { class: "at" });
  #figure = make("strong", { class: "figure" });
  #words = make("span", {});
  #shares = make("div", { class: "shares", "aria-hidden": "true" });
  #left = make("ol", { class: "left-steps", role: "list", "aria-labelledby": "left-title" });
  #goal = make("p", { class: "end goal" });
  #others = make("ol", { class: "other-plans", role: "list", "aria-label": "Other plans" });

  #isUnfolded = false;

  /** @type {FollowedMoment | null} */
  #shown = null;

  /** @type {Problem | null} */
  #shownProblem = null;

  build() {
    this.#now.append(...Array.from({ length: NOW_ROWS }, nowRow));
    const others = make("details", { class: "others" }, make("summary", {}, "Other plans"), this.#others);
    this.append(
      this.#problem,
      make(
        "div",
        { class: "follow-parts" },
        part("done", "Done", this.#earlier, this.#nothing, this.#done),
        part("now", "Now", this.#clock, this.#now),
        part(
          "left",
          "Left",
          null,
          make("p", { class: "likelihood" }, this.#figure, " ", this.#words),
          this.#shares,
          this.#left,
          this.#goal,
        ),
      ),
      others,
    );
  }

  /** @param {State} state */
  render(state) {
    if (!state.following) {
      this.#shown = null;
      this.#isUnfolded = false;
      this.removeAttribute("data-second");
      return;
    }
    const { moments, isWhole, problem } = state.following;
    const { moment, isLate } = momentAt(state);
    if (moment === null && problem) this.#shown = null;
    this.toggleAttribute("data-late", isLate);
    this.toggleAttribute("data-whole", isWhole);
    this.dataset.computed = `${moments.length}`;
    this.#renderProblem(problem, state);
    this.#renderGoal(state);
    const isEmpty = moment === null && this.#shown === null; // else what was shown stays until there is something new
    this.classList.toggle("is-empty", isEmpty);
    if (isEmpty) this.#renderNow(NOTHING);
    if (moment === null || moment === this.#shown) return;
    this.#shown = moment;
    this.dataset.second = `${moment.second}`;
    this.#renderDone(moment);
    this.#renderNow(moment);
    this.#renderLeft(moment, goalWords(state) !== null || state.horizon !== null);
  }

  /** @param {Problem | null} problem @param {State} state */
  #renderProblem(problem, state) {
    if (problem === this.#shownProblem) return;
    this.#shownProblem = problem;
    this.#problem.replaceChildren();
    this.classList.toggle("has-problem", problem !== null);
    const stop = { text: "Stop following", run: stopFollowing };
    if (problem) this.#problem.append(problemBox(problem, queryWayBack(problem, state) ?? stop));
  }

  #unfold() {
    this.#isUnfolded = !this.#isUnfolded;
    if (this.#shown) this.#renderDone(this.#shown);
  }

  /** @param {FollowedMoment} moment */
  #renderDone({ done }) {
    const hidden = Math.max(0, done.length - DONE_ROWS);
    const listed = this.#isUnfolded ? done : done.slice(hidden);
    this.#done.replaceChildren(...listed.map(doneRow));
    this.#nothing.hidden = done.length > 0;
    this.#earlier.hidden = hidden === 0;
    this.#earlier.setAttribute("aria-expanded", `${this.#isUnfolded}`);
    const words = this.#isUnfolded ? "Hide" : "Show";
    find(this.#earlier, "span").textContent = `${words} ${counted(hidden, "earlier step")}`;
  }

  /** @param {Pick<FollowedMoment, "second" | "now">} moment */
  #renderNow({ second, now }) {
    this.#clock.textContent = formatLength(second);
    for (const [index, row] of [...this.#now.children].entries()) {
      const item = now[index];
      row.classList.toggle("is-absent", !item);
      row.classList.toggle("is-pause", item?.step === null);
      find(row, ".step-name").textContent = item ? (item.step ?? "no step") : SPACE;
      find(row, ".share").textContent = item ? percent(item.probability, 0) : SPACE;
      find(row, ".bar").style.setProperty("--share", `${item?.probability ?? 0}`);
    }
  }

  /** @param {FollowedMoment} moment @param {boolean} hasEnd  whether it is known where the video leads */
  #renderLeft({ left, now }, hasEnd) {
    this.#figure.textContent = roundPercent(left.plan_probability);
    const steps = counted(left.plan.length, "step");
    this.#words.textContent = hasEnd ? `likely; ${steps} left` : `likely; the next ${steps}`;
    this.#shares.replaceChildren(...left.plans.map(segment));
    this.#left.replaceChildren(...left.plan.map((step, index) => leftRow(step, index === 0 && step === now[0]?.step)));
    const others = left.plans.slice(1, 1 + OTHER_PLANS);
    find(this, ".others").hidden = others.length === 0;
    this.#others.replaceChildren(...others.map(otherRow));
  }

  /** @param {State} state */
  #renderGoal(state) {
    const words = goalWords(state);
    this.classList.toggle("no-goal", words === null);
    if (this.#goal.dataset.words === `${words}`) return;
    this.#goal.dataset.words = `${words}`;
    this.#goal.replaceChildren(make("strong", {}, "Goal"), ` ${words ?? "not said"}`);
  }
}

/** @param {string} name @param {string} title @param {Node | null} beside @param {...Node} content */
function part(name, title, beside, ...content) {
  const heading = make("h3", { id: `${name}-title` }, title);
  const top = make("div", { class: "part-top" }, heading, beside);
  return make("section", { class: `follow-part ${name}` }, top, ...content);
}

/** @param {FollowedMoment["done"][number]} step */
function doneRow({ step, start_s, end_s, probability }) {
  const end = make("span", { class: "until" }, `\u2009–\u2009${formatLength(end_s)}`);
  return make(
    "li",
    { "data-step": step },
    make("span", { class: "step-name" }, step),
    make("span", { class: "at" }, formatLength(start_s), end),
    make("span", { class: "share" }, percent(probability, 0)),
  );
}

function nowRow() {
  return make(
    "li",
    {},
    make("span", { class: "step-name" }),
    make("span", { class: "bar", "aria-hidden": "true" }),
    make("span", { class: "share" }),
  );
}

/** @param {string} step @param {boolean} isUnderWay */
function leftRow(step, isUnderWay) {
  const name = make("span", { class: "step-name" }, step);
  return make("li", { "data-step": step }, name, isUnderWay ? make("span", { class: "tag" }, "under way") : null);
}

/** @param {FollowedMoment["left"]["plans"][number]} plan */
function otherRow({ steps, probability }) {
  const words = steps.flatMap((step, place) => [...(place ? arrow() : []), step]);
  return make("li", {}, make("span", {}, ...words), make("span", { class: "share" }, percent(probability)));
}

/** @param {FollowedMoment["left"]["plans"][number]} plan @param {number} index */
function segment({ probability }, index) {
  const element = make("span", { class: index === 0 ? "is-chosen" : "" });
  element.style.setProperty("--share", `${probability}`);
  return element;
}

/** What the goal is; null: there is none. @param {State} state */
function goalWords(state) {
  const kind = goalKindOf(state);
  if (kind === "words") return state.goalText || null;
  if (kind === "none" || state.goal === null) return null;
  return "t" in state.goal ? formatLength(Math.min(state.goal.t, lengthOf(state))) : state.goal.name;
}

/** How far the video is computed, as long as it is not to its end. */
class FollowState extends View {
  static watches = /** @type {const} */ (["following", "playhead"]);

  /** @param {State} state */
  render(state) {
    const { following } = state;
    const number = following && !following.isWhole && !following.problem ? following.moments.length : 0;
    const words = number ? `Computed up to ${formatLength(number)}` : "";
    if (this.textContent !== words) this.textContent = words;
    this.classList.toggle("is-late", number > 0 && momentAt(state).isLate);
  }
}

customElements.define("follow-panel", FollowPanel);
customElements.define("follow-state", FollowState);
