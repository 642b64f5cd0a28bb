/**
 * Asking for plans: 300 ms after start and goal have come to rest, and only for the newest query.
 *
 * @import {Answer, End, Moment, State} from "./types.js"
 */

import { isAbort, requestPlans } from "./api.js";
import { announce, whenAtRest } from "./dom.js";
import { roundPercent, roundTime, spokenTime } from "./format.js";
import { clampTime, seek } from "./playback.js";
import { problemOf } from "./problems.js";
import { requestOf } from "./query.js";
import { store } from "./store.js";

const REST_MS = 300;
const NARROW = window.matchMedia("(max-width: 719px)");

let running = new AbortController();

/** The direction of the graph that was asked for last. @type {"horizontal" | "vertical"} */
let direction = "horizontal";

const planAtRest = whenAtRest(REST_MS, () => void plan());

/** Set start or goal, and plan soon. @param {End} end @param {Moment | null} moment */
export function setMoment(end, moment) {
  store.set(end === "start" ? { start: moment } : { goal: moment, goalKind: "moment" });
  planSoon();
}

/** Set start or goal to the playhead. @param {End} end */
export function setHere(end) {
  if (store.state.video === null) return;
  const second = clampTime(roundTime(store.state.playhead));
  setMoment(end, { t: second });
  announce(`${end} at ${spokenTime(second)}`);
}

/** Set start or goal, and show that moment. @param {End} end @param {number} second */
export function moveMoment(end, second) {
  const time = clampTime(roundTime(second));
  seek(time);
  setMoment(end, { t: time });
}

/** Change what is asked beside the moments, and plan at once. @param {Partial<State>} changes */
export function setQuery(changes) {
  store.set(changes);
  planNow();
}

/** Plan without a rest, if start and goal are there. */
export function planNow() {
  planSoon();
  if (store.state.planning) void plan();
}

/** Plan nothing for now. */
export function pausePlanning() {
  running.abort();
  planAtRest.cancel();
  store.set({ planning: null, planProblem: null });
}

/** Plan when nothing has changed for a while; what is under way is out of date. */
export function planSoon() {
  if (store.state.mode === "follow") return;
  running.abort();
  planAtRest.cancel();
  if (requestOf(store.state) === null) {
    store.set({ planning: null, answer: null, reasons: null, planProblem: null });
    return;
  }
  store.set({ planning: { stage: "encoding", done: 0, total: 0 }, planProblem: null });
  planAtRest();
}

/** Plan now. */
export async function plan() {
  running.abort();
  planAtRest.cancel();
  const mine = new AbortController();
  running = mine;
  const query = requestOf(store.state);
  if (query === null) return;
  store.set({ planning: { stage: "encoding", done: 0, total: 0 }, planProblem: null });
  direction = fittingDirection();
  try {
    const answer = await requestPlans(
      { ...query, graph: direction },
      (planning) => !mine.signal.aborted && store.set({ planning }),
      mine.signal,
    );
    if (!mine.signal.aborted) show(answer);
  } catch (error) {
    if (!mine.signal.aborted && !isAbort(error)) fail(error);
  }
}

/** The direction of the graph that fits the window. */
function fittingDirection() {
  return NARROW.matches ? "vertical" : "horizontal";
}

NARROW.addEventListener("change", () => {
  const { answer, mode } = store.state;
  if (mode === "plan" && answer && direction !== fittingDirection()) void plan();
});

/** @param {Answer} answer */
function show(answer) {
  store.set({ answer, chosen: 0, planning: null, reasons: reasonsOf(answer), whyProblem: null });
  const steps = answer.plan.join(", then ");
  const understood = (answer.understood ?? []).map((words) => `${words}. `).join("");
  announce(`${understood}Plans are ready. Recommended, ${roundPercent(answer.plan_probability)} likely: ${steps}.`);
  if (store.state.why) void showWhy(true); // which may have been unfolded meanwhile
}

/** @param {unknown} error */
function fail(error) {
  const problem = problemOf(error, () => void plan());
  if (problem.code === "cannot_plan") problem.retry = null; // the answer would be the same
  store.set({ answer: null, reasons: null, planning: null, planProblem: problem });
  announce(`No plans: ${problem.message}`);
}

/** Stop what is under way. The plans before it belong to other moments, so they go too. */
export function cancelPlanning() {
  running.abort();
  planAtRest.cancel();
  const planProblem = { message: "Planning was cancelled.", hint: null, retry: () => void plan() };
  store.set({ planning: null, answer: null, reasons: null, planProblem });
  announce(planProblem.message);
}

/** @param {number} index of the plan to show */
export function choosePlan(index) {
  const chosen = store.state.answer?.plans[index];
  if (!chosen) return;
  store.set({ chosen: index });
  announce(`Plan ${index + 1}, ${roundPercent(chosen.probability)}: ${chosen.steps.join(", then ")}.`);
}

/** The reasons in an answer; null if they were not asked for. @param {Answer} answer @returns {State["reasons"]} */
function reasonsOf({ why, why_words: words }) {
  return why && words ? { why, words } : null;
}

/** Unfold or fold the reasons; where the answer has none, they are asked for. @param {boolean} isOpen */
export async function showWhy(isOpen) {
  store.set({ why: isOpen });
  const { answer, reasons, planning } = store.state;
  if (!isOpen || !answer || reasons || planning) return;
  const query = requestOf(store.state);
  const mine = running;
  store.set({ whyProblem: null });
  try {
    const found = query && (await requestPlans(query, () => {}, mine.signal));
    if (found && store.state.answer === answer) store.set({ reasons: reasonsOf(found) });
  } catch (error) {
    if (!mine.signal.aborted && !isAbort(error)) store.set({ whyProblem: problemOf(error) });
  }
}

/** The probability of all plans but the first ones. @param {Answer} answer @param {number} number of those */
export function restOf({ plans }, number) {
  return Math.max(0, 1 - plans.slice(0, number).reduce((sum, plan) => sum + plan.probability, 0));
}
