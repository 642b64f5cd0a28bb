/**
 * The state of the page, in one place. Elements read it and are told when a part that they watch has changed.
 *
 * @import {End, GoalKind, Moment, State} from "./types.js"
 */

/** @typedef {keyof State} Key */

/** @type {State} */
const EMPTY = {
  info: null,
  videos: [],
  video: null,
  cannotPlay: false,
  frameS: null,
  playhead: 0,
  isPlaying: false,
  start: null,
  goal: null,
  goalKind: "moment",
  goalText: "",
  procedure: null,
  history: true,
  horizon: null,
  conditions: [],
  why: false,
  seed: 0,
  number: 100,
  upload: null,
  planning: null,
  answer: null,
  chosen: 0,
  reasons: null,
  whyProblem: null,
  mode: "plan",
  following: null,
  annotating: null,
  videoProblem: null,
  planProblem: null,
};

const DEFAULT_FRAME_S = 1 / 25;

class Store {
  /** @type {State} */
  state = { ...EMPTY };

  /** @type {Set<{keys: readonly Key[], tell: () => void}>} */
  #watchers = new Set();

  /** @type {Set<Key>} */
  #changed = new Set();

  /**
   * Change parts of the state. Those who watch them are told once, after the running code has ended.
   *
   * @param {Partial<State>} changes
   */
  set(changes) {
    const keys = /** @type {Key[]} */ (Object.keys(changes)).filter((key) => changes[key] !== this.state[key]);
    if (keys.length === 0) return;
    if (this.#changed.size === 0) queueMicrotask(() => this.#tell());
    for (const key of keys) this.#changed.add(key);
    this.state = { ...this.state, ...changes };
  }

  /**
   * @param {readonly Key[]} keys
   * @param {() => void} tell
   * @returns {() => void} ends it
   */
  watch(keys, tell) {
    const watcher = { keys, tell };
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  #tell() {
    const changed = this.#changed;
    this.#changed = new Set();
    for (const { keys, tell } of [...this.#watchers]) {
      if (keys.some((key) => changed.has(key))) tell();
    }
  }
}

export const store = new Store();

/** @param {State} state */
export function lengthOf(state) {
  return state.video?.length_s ?? 0;
}

/** Whether the service sends single frames, since the browser cannot play the video. @param {State} state */
export function showsFrames(state) {
  return state.video !== null && state.video.has_frames && (state.video.media_type === null || state.cannotPlay);
}

/** Whether the browser plays the video; else the playhead goes from second to second. @param {State} state */
export function canPlay(state) {
  return state.video !== null && state.video.has_frames && !showsFrames(state);
}

/** The length of a frame in seconds. @param {State} state */
export function frameLength(state) {
  return state.frameS ?? DEFAULT_FRAME_S;
}

/**
 * The second of a moment, where it is one of the video.
 *
 * @param {Moment | null} moment
 * @returns {number | null}
 */
export function secondOf(moment) {
  return moment !== null && "t" in moment ? moment.t : null;
}

/**
 * Where the handle of an end stands: unset handles wait at the ends of the video.
 *
 * @param {State} state
 * @param {End} end
 */
export function handleAt(state, end) {
  return secondOf(state[end]) ?? (end === "start" ? 0 : lengthOf(state));
}

/** Whether the planner understands a piece of evidence. @param {State} state @param {string} piece */
export function understands({ info }, piece) {
  return info?.evidence.includes(piece) === true;
}

/** What the goal is; planners that know no words need a moment. @param {State} state @returns {GoalKind} */
export function goalKindOf(state) {
  return understands(state, "words") ? state.goalKind : "moment";
}

/** Whether the goal is said, be it that there is none. @param {State} state */
export function hasGoal(state) {
  const kind = goalKindOf(state);
  return kind === "none" || (kind === "words" ? state.goalText !== "" : state.goal !== null);
}
