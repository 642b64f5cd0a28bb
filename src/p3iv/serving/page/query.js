/**
 * The query of the page as the service takes it.
 *
 * @import {Condition, ConditionsRequest, FollowRequest, Moment, MomentRequest, PlanRequest, State, Video} from
 *   "./types.js"
 */

import { goalKindOf, understands } from "./store.js";

/**
 * What the service is asked; null while start or goal is missing. What is as usual is left out.
 *
 * @param {State} state
 * @returns {PlanRequest | null}
 */
export function requestOf(state) {
  const start = momentRequest(state.start, state.video);
  const goal = goalRequest(state);
  if (!start || goal === null) return null;
  return {
    start,
    goal,
    procedure: (understands(state, "procedure") && state.procedure) || undefined,
    history: understands(state, "history") && !state.history ? false : undefined,
    horizon: state.horizon ?? undefined,
    conditions: conditionsRequest(state.conditions),
    why: (state.why && state.info?.reasons) || undefined,
    number: state.number,
    seed: state.seed,
  };
}

/**
 * What the service is asked to follow; null without a video. A goal that is missing is none.
 *
 * @param {State} state
 * @returns {FollowRequest | null}
 */
export function followRequestOf(state) {
  if (!state.video) return null;
  return {
    video: state.video.id,
    goal: goalRequest(state) ?? undefined,
    procedure: (understands(state, "procedure") && state.procedure) || undefined,
    horizon: state.horizon ?? undefined,
    conditions: conditionsRequest(state.conditions),
  };
}

/** The goal of a request; null while it is missing, undefined if there is none. @param {State} state */
function goalRequest(state) {
  const kind = goalKindOf(state);
  if (kind === "none") return undefined;
  if (kind === "words") return state.goalText ? { text: state.goalText } : null;
  return momentRequest(state.goal, state.video);
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

/** As the service takes them; undefined without any. @param {Condition[]} conditions */
function conditionsRequest(conditions) {
  if (conditions.length === 0) return undefined;
  /** @type {ConditionsRequest} */
  const request = {};
  for (const { kind, step } of conditions) {
    if (kind === "first" || kind === "last") request[kind] = step;
    else request[kind] = [...(request[kind] ?? []), step];
  }
  return request;
}
