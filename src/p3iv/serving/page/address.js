/**
 * The fragment of the page's address, which holds the query: #video=ID&start=12&goal=26&seed=0, so that reload and
 * sharing work. A moment that is a picture is written as start=picture.ID, a goal in words as words=TEXT, no goal as
 * goal=none; conditions by their kind: without=STEP&first=STEP; that the video is followed as follow=on.
 *
 * @import {Condition, ConditionKind, GoalKind, Moment, State} from "./types.js"
 */

/**
 * @typedef {object} Asked  what an address asks for
 * @property {string | null} token
 * @property {string | null} video
 * @property {Moment | null} start
 * @property {Moment | null} goal
 * @property {number | null} seed
 * @property {number | null} number
 * @property {"plan" | "follow"} mode
 * @property {Pick<State, "goalKind" | "goalText" | "procedure" | "history" | "horizon" | "conditions" | "why">} query
 */

const PICTURE = "picture.";
const MAX_TEXT = 500; // as the service takes it
const MAX_CONDITIONS = 50;

/** @type {readonly string[]} */
const CONDITIONS = /** @satisfies {readonly ConditionKind[]} */ (["without", "with", "first", "last", "done"]);

/** @returns {Asked} */
export function readAddress() {
  const fields = new URLSearchParams(window.location.hash.slice(1));
  return {
    token: fields.get("token"),
    video: fields.get("video"),
    start: readMoment(fields.get("start")),
    goal: readMoment(fields.get("goal")),
    seed: readWhole(fields.get("seed")),
    number: readWhole(fields.get("number")),
    mode: fields.get("follow") === "on" ? "follow" : "plan",
    query: readQuery(fields),
  };
}

/** @param {URLSearchParams} fields @returns {Asked["query"]} */
function readQuery(fields) {
  const goalText = (fields.get("words") ?? "").slice(0, MAX_TEXT);
  return {
    goalKind: readGoalKind(goalText, fields.get("goal")),
    goalText,
    procedure: fields.get("procedure"),
    history: fields.get("history") !== "off",
    horizon: readWhole(fields.get("steps")),
    conditions: readConditions(fields),
    why: fields.get("why") === "on",
  };
}

/** @param {string} words @param {string | null} goal @returns {GoalKind} */
function readGoalKind(words, goal) {
  if (words) return "words";
  return goal === "none" ? "none" : "moment";
}

/** In the order of the address. @param {URLSearchParams} fields @returns {Condition[]} */
function readConditions(fields) {
  const found = [...fields].filter(([name, step]) => CONDITIONS.includes(name) && step);
  return found.slice(0, MAX_CONDITIONS).map(([name, step]) => ({ kind: /** @type {ConditionKind} */ (name), step }));
}

/** @param {string | null} text @returns {Moment | null} */
function readMoment(text) {
  if (text?.startsWith(PICTURE)) return { picture: text.slice(PICTURE.length), name: "a picture" };
  const second = text ? Number(text) : NaN;
  return Number.isFinite(second) && second >= 0 ? { t: second } : null;
}

/** @param {string | null} text */
function readWhole(text) {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** The fragment of the present query, without #. @param {State} state */
function fragmentOf(state) {
  const fields = [];
  if (state.video) fields.push(field("video", state.video.id));
  if (state.start) fields.push(`start=${momentText(state.start)}`);
  fields.push(...goalFields(state));
  if (state.procedure !== null) fields.push(field("procedure", state.procedure));
  if (!state.history) fields.push("history=off");
  if (state.horizon !== null) fields.push(`steps=${state.horizon}`);
  fields.push(...state.conditions.map(({ kind, step }) => field(kind, step)));
  if (state.why) fields.push("why=on");
  if (state.mode === "follow") fields.push("follow=on");
  if (!state.video && !state.start && !state.goal) return ""; // without a moment there is nothing to come back to
  if (state.number !== 100) fields.push(`number=${state.number}`);
  return [...fields, `seed=${state.seed}`].join("&");
}

/** @param {State} state */
function goalFields({ goal, goalKind, goalText }) {
  if (goalKind === "none") return ["goal=none"];
  if (goalKind === "words") return goalText ? [field("words", goalText)] : [];
  return goal ? [`goal=${momentText(goal)}`] : [];
}

/** @param {string} name @param {string} value */
function field(name, value) {
  return `${name}=${encodeURIComponent(value)}`;
}

/** @param {Moment} moment */
function momentText(moment) {
  return "t" in moment ? `${moment.t}` : `${PICTURE}${encodeURIComponent(moment.picture)}`;
}

/** Write the query into the address; the browser's history does not grow. @param {State} state */
export function writeAddress(state) {
  const fragment = fragmentOf(state);
  if (window.location.hash.slice(1) === fragment) return;
  window.history.replaceState(null, "", fragment ? `#${fragment}` : window.location.pathname);
}

/** Take the token out of the address, so that it is not shared. */
export function forgetToken() {
  const fields = window.location.hash
    .slice(1)
    .split("&")
    .filter((field) => !field.startsWith("token="));
  const fragment = fields.join("&");
  window.history.replaceState(null, "", fragment ? `#${fragment}` : window.location.pathname);
}
