/**
 * Asking for plans: 300 ms after start and goal have come to rest, and only for the newest pair.
 *
 * @import {Answer, End, Moment, MomentRequest, PlanRequest, State, Video} from "./types.js"
 */

import { isAbort, requestPlans } from "./api.js";
import { announce, whenAtRest } from "./dom.js";
import { roundPercent } from "./format.js";
import { problemOf } from "./problems.js";
import { store } from "./store.js";

const REST_MS = 300;
const NARROW = window.matchMedia("(max-width: 719px)");

let running = new AbortController();

/** The direction of the graph that was asked for last. @type {"horizontal" | "vertical"} */
let direction = "horizontal";

const planAtRest = whenAtRest(REST_MS, () => void plan());

/** Set start or goal, and plan soon. @param {End} end @param {Moment | null} moment */
export function setMoment(end, moment) {
  store.set(end === "start" ? { start: moment } : { goal: moment });
  planSoon();
}

/** Plan when nothing has changed for a while; what is under way is out of date. */
export function planSoon() {
  running.abort();
  planAtRest.cancel();
  if (requestOf(store.state) === null) {
    store.set({ planning: null, answer: null, planProblem: null });
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
  if (store.state.answer && direction !== fittingDirection()) void plan();
});

/** @param {Answer} answer */
function show(answer) {
  store.set({ answer, chosen: 0, planning: null });
  const steps = answer.plan.join(", then ");
  announce(`Plans are ready. Recommended, ${roundPercent(answer.plan_probability)} likely: ${steps}.`);
}

/** @param {unknown} error */
function fail(error) {
  const problem = problemOf(error, () => void plan());
  store.set({ answer: null, planning: null, planProblem: problem });
  announce(`No plans: ${problem.message}`);
}

/** Stop what is under way. The plans before it belong to other moments, so they go too. */
export function cancelPlanning() {
  running.abort();
  planAtRest.cancel();
  const planProblem = { message: "Planning was cancelled.", hint: null, retry: () => void plan() };
  store.set({ planning: null, answer: null, planProblem });
  announce(planProblem.message);
}

/** @param {number} index of the plan to show */
export function choosePlan(index) {
  const chosen = store.state.answer?.plans[index];
  if (!chosen) return;
  store.set({ chosen: index });
  announce(`Plan ${index + 1}, ${roundPercent(chosen.probability)}: ${chosen.steps.join(", then ")}.`);
}

/**
 * What the service is asked; null while start or goal is missing.
 *
 * @param {State} state
 * @returns {PlanRequest | null}
 */
export function requestOf(state) {
  const start = momentRequest(state.start, state.video);
  const goal = momentRequest(state.goal, state.video);
  return start && goal && { start, goal, number: state.number, seed: state.seed };
}

/**
 * @param {Moment | null} moment
 * @param {Video | null} video
 * @returns {MomentRequest | null}
 */
function momentRequest(moment, video) {
  if (moment === null) return null;
  if ("picture" in moment) return { picture: moment.picture };
  return video && { video: video.id, t: moment.t };
}

/** The probability of all plans but the first ones. @param {Answer} answer @param {number} number of those */
export function restOf({ plans }, number) {
  return Math.max(0, 1 - plans.slice(0, number).reduce((sum, plan) => sum + plan.probability, 0));
}
