/**
 * Following a video: the service sends what is done, under way and left in every second, ahead of the playhead. The
 * moments are kept by second, so that the page shows the right one wherever the playhead is.
 *
 * @import {FollowedMoment, State} from "./types.js"
 */

import { isAbort, requestMoments } from "./api.js";
import { announce, whenAtRest } from "./dom.js";
import { problemOf } from "./problems.js";
import { followRequestOf } from "./query.js";
import { lengthOf, store } from "./store.js";

const REST_MS = 300;
const ANNOUNCE_MS = 900; // a step that is shown for a shorter time is not announced

let running = new AbortController();

/** The request of the moments that are there or come, as text. */
let asked = "null";

/** The step that was announced last; undefined: none. @type {string | null | undefined} */
let announced;

const runAtRest = whenAtRest(REST_MS, () => void run());
const announceAtRest = whenAtRest(ANNOUNCE_MS, announceStep);

/** Ask for the moments that are missing, after a problem. */
export function resumeFollowing() {
  void run();
}

/** Follow what the state asks for; moments of another question are dropped. */
function sync() {
  const request = store.state.mode === "follow" ? followRequestOf(store.state) : null;
  const text = JSON.stringify(request);
  if (text === asked) return;
  const isFirst = asked === "null";
  asked = text;
  announced = undefined;
  running.abort();
  runAtRest.cancel();
  store.set({ following: request && { moments: [], isWhole: false, problem: null } });
  if (request && isFirst) void run();
  else if (request) runAtRest();
}

/** Collect moments, from the first that is missing. */
async function run() {
  const request = followRequestOf(store.state);
  if (!request || !store.state.following) return;
  running.abort();
  const mine = new AbortController();
  running = mine;
  const { moments } = store.state.following;
  store.set({ following: { moments, isWhole: false, problem: null } });
  try {
    for await (const moment of requestMoments({ ...request, from: moments.length || undefined }, mine.signal)) {
      if (mine.signal.aborted) return;
      moments[moment.second] = moment;
      store.set({ following: { moments, isWhole: false, problem: null } });
    }
    if (!mine.signal.aborted) store.set({ following: { moments, isWhole: true, problem: null } });
  } catch (error) {
    if (!mine.signal.aborted && !isAbort(error)) fail(error, moments);
  }
}

/** @param {unknown} error @param {FollowedMoment[]} moments */
function fail(error, moments) {
  const problem = problemOf(error, resumeFollowing);
  if (problem.code === "cannot_plan") problem.retry = null; // the answer would be the same
  store.set({ following: { moments, isWhole: false, problem } });
  announce(`The video cannot be followed: ${problem.message}`);
}

/**
 * The moment to show: that of the playhead, or the last one if the video is ahead of it.
 *
 * @param {State} state
 * @returns {{moment: FollowedMoment | null, isLate: boolean}}
 */
export function momentAt(state) {
  const { following, playhead } = state;
  if (!following || following.moments.length === 0) return { moment: null, isLate: following !== null };
  const { moments, isWhole } = following;
  const wanted = Math.min(Math.floor(playhead + 1e-3), Math.max(0, Math.ceil(lengthOf(state)) - 1));
  let second = Math.min(wanted, moments.length - 1);
  while (second > 0 && !moments[second]) second -= 1; // seconds whose features are missing have no moment
  return { moment: moments[second] ?? null, isLate: wanted >= moments.length && !isWhole };
}

/** Say which step is under way, if it is another one than before. */
function announceStep() {
  const { moment, isLate } = momentAt(store.state);
  const step = moment?.now[0]?.step;
  if (isLate || step === undefined || step === announced) return;
  announced = step;
  announce(step === null ? "Now: no step." : `Now: ${step}.`);
}

/** The step that was shown last. @type {string | null | undefined} */
let shown;

store.watch(["mode", "video", "goal", "goalKind", "goalText", "procedure", "horizon", "conditions"], sync);
store.watch(["following", "playhead"], () => {
  const step = momentAt(store.state).moment?.now[0]?.step;
  if (step === shown) return;
  shown = step;
  announceAtRest();
});
sync();
