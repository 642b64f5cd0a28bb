/** How probable the plan is, in words and as a bar of all plans; says so where the planner is unsure. */

import { make } from "./dom.js";
import { counted, percent, roundPercent } from "./format.js";
import { requestOf } from "./query.js";
import { goalKindOf, handleAt, secondOf } from "./store.js";
import { View } from "./view.js";

/** @import {Answer, Info, State} from "./types.js" */

const SURE = 0.5; // from here on, the plan is more likely than all others together
const UNSURE = 0.25; // below, one wants to know how many plans are as good
const MAX_SEGMENTS = 12;
const REVERSED = "The goal is before the start in this video. The plan leads from the later moment to the earlier one.";

export class PlanSummary extends View {
  static watches = /** @type {const} */ (["answer", "chosen"]);

  #figure = make("strong", { class: "figure" });
  #words = make("span", {});
  #bar = make("div", { class: "shares", "aria-hidden": "true" });
  #notes = make("div", { class: "notes" });

  build() {
    this.append(make("p", { class: "likelihood" }, this.#figure, " ", this.#words), this.#bar, this.#notes);
  }

  /** @param {State} state */
  render(state) {
    const { answer, chosen } = state;
    if (!answer) return;
    const { steps, probability } = answer.plans[chosen];
    this.#figure.textContent = roundPercent(probability);
    const meaning = answer.source === "chain" ? "likely under this planner" : "of the planner’s samples";
    this.#words.textContent = `${meaning}; ${counted(steps.length, "step")}`;
    this.#bar.replaceChildren(...segments(answer, chosen));
    this.#notes.replaceChildren(...notesOf(state, answer).map((note) => make("p", { class: "notice" }, note)));
  }
}

/** @param {Answer} answer @param {number} chosen */
function segments({ plans }, chosen) {
  return plans.slice(0, MAX_SEGMENTS).map(({ probability }, index) => {
    const segment = make("span", { class: index === chosen ? "is-chosen" : "" });
    segment.style.setProperty("--share", `${probability}`);
    return segment;
  });
}

/** What one should know before one believes the plan. @param {State} state @param {Answer} answer */
function notesOf(state, answer) {
  const notes = [];
  if (answer.plan_probability < SURE) notes.push(explainDoubt(answer));
  if (isReversed(state)) notes.push(REVERSED);
  if (isSame(state)) notes.push("Start and goal are the same; there is a plan all the same.");
  if (state.info && state.video?.source === "upload") notes.push(explainDomain(state.info));
  return notes;
}

/** @param {Answer} answer */
function explainDoubt({ plans, plan_probability: best }) {
  const start = `The planner is unsure: its best plan has ${roundPercent(best)}`;
  const half = percent(0.5, 0);
  const number = plansForHalf(plans.map((plan) => plan.probability));
  if (best >= UNSURE) return `${start}, all others together have ${roundPercent(1 - best)}.`;
  if (number !== null) return `${start}; it takes the ${number} most probable plans to reach ${half}.`;
  return `${start}, and even the ${plans.length} most probable plans do not reach ${half} together.`;
}

/** How many of the plans have half of the probability together. @param {number[]} probabilities */
function plansForHalf(probabilities) {
  let sum = 0;
  const index = probabilities.findIndex((probability) => (sum += probability) >= 0.5);
  return index < 0 ? null : index + 1;
}

/** @param {State} state */
function isReversed(state) {
  const [start, goal] = [secondOf(state.start), secondOf(state.goal)];
  return (
    goalKindOf(state) === "moment" &&
    start !== null &&
    goal !== null &&
    handleAt(state, "start") > handleAt(state, "goal")
  );
}

/** @param {State} state */
function isSame(state) {
  const [start, goal] = [requestOf(state)?.start, requestOf(state)?.goal];
  return start !== undefined && JSON.stringify(start) === JSON.stringify(goal);
}

/** @param {Info} info */
function explainDomain({ planner, actions }) {
  const steps = counted(actions.length, "step");
  return `This planner learned from ${planner.data_label}. It answers with its ${steps}, whatever a video shows.`;
}

customElements.define("plan-summary", PlanSummary);
