/**
 * The fragment of the page's address, which holds the query: #video=ID&start=12&goal=26&seed=0, so that reload and
 * sharing work. A moment that is a picture is written as start=picture.ID.
 *
 * @import {Moment, State} from "./types.js"
 */

/**
 * @typedef {object} Asked  what an address asks for
 * @property {string | null} token
 * @property {string | null} video
 * @property {Moment | null} start
 * @property {Moment | null} goal
 * @property {number | null} seed
 * @property {number | null} number
 */

const PICTURE = "picture.";

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
  };
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
  if (state.video) fields.push(`video=${encodeURIComponent(state.video.id)}`);
  if (state.start) fields.push(`start=${momentText(state.start)}`);
  if (state.goal) fields.push(`goal=${momentText(state.goal)}`);
  if (fields.length && state.number !== 100) fields.push(`number=${state.number}`);
  if (fields.length) fields.push(`seed=${state.seed}`);
  return fields.join("&");
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
