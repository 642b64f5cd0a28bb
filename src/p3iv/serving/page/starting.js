/** What happens when the page opens, when its address changes, and when the service asks for a token. */

import { forgetToken, readAddress, writeAddress } from "./address.js";
import { getInfo, getVideos, openSession, ServiceError } from "./api.js";
import { find, whenAtRest } from "./dom.js";
import { chooseVideo } from "./library.js";
import { planSoon } from "./planning.js";
import { problemOf } from "./problems.js";
import { store } from "./store.js";

/** @import {Asked} from "./address.js" */

const STARTING_MS = 1000; // between two questions to a service that is starting

const dialog = /** @type {HTMLDialogElement} */ (find(document, "#token-dialog"));
const tokenField = /** @type {HTMLInputElement} */ (find(document, "#token"));

/** Open the page as its address says. */
export async function startUp() {
  const asked = readAddress();
  if (asked.token) forgetToken();
  try {
    if (asked.token) await openSession(asked.token);
    const [info, videos] = await Promise.all([getInfo(), getVideos()]);
    store.set({ info, videos, videoProblem: null });
    await restore(asked);
  } catch (error) {
    failToStart(error);
  }
}

/** @param {unknown} error */
function failToStart(error) {
  const code = error instanceof ServiceError ? error.code : "";
  if (code === "unauthorized") return; // the dialog is open
  const problem = problemOf(error, () => void startUp());
  if (code !== "not_ready") store.set({ videoProblem: problem });
  else window.setTimeout(() => void startUp(), STARTING_MS);
}

/** Show what an address asks for, or the example. @param {Asked} asked */
async function restore({ video, start, goal, seed, number, mode, query }) {
  const { info } = store.state;
  const most = info?.limits.plans ?? 1;
  store.set({ mode: info?.can_follow && video ? mode : "plan" });
  store.set({ ...query, ...known(query), seed: seed ?? 0, number: Math.min(Math.max(number ?? 100, 1), most) });
  if (video) return chooseVideo(video, { start, goal });
  if (start && "picture" in start) store.set({ start });
  if (goal && "picture" in goal) store.set({ goal });
  if (store.state.start || store.state.goal) return planSoon();
  const example = info?.example;
  if (example) return chooseVideo(example.video, { start: { t: example.start }, goal: { t: example.goal } });
}

/** What this planner knows of a query; the rest of an address may be for another one. @param {Asked["query"]} query */
function known({ procedure, horizon }) {
  const { info } = store.state;
  return {
    procedure: procedure !== null && info?.procedures.includes(procedure) ? procedure : null,
    horizon: horizon !== null && info?.horizons.includes(horizon) ? horizon : null,
  };
}

/** @param {SubmitEvent} event */
async function useToken(event) {
  event.preventDefault();
  const problem = find(dialog, "#token-problem");
  try {
    await openSession(tokenField.value.trim());
    tokenField.value = "";
    problem.hidden = true;
    dialog.close();
    await startUp();
  } catch (error) {
    problem.textContent = problemOf(error).message;
    problem.hidden = false;
    tokenField.focus();
  }
}

function askForToken() {
  if (!dialog.open) dialog.showModal();
}

/** Without the token there is nothing to show. */
function onTokenClosed() {
  const message = "This server asks for a token.";
  const hint = "It is in the address that p3iv serve printed when it started.";
  store.set({ videoProblem: { message, hint, retry: () => void startUp() } });
}

/** Listen to the form of the token and to the address. */
export function listen() {
  const write = whenAtRest(200, () => writeAddress(store.state));
  store.watch(["video", "start", "goal", "seed", "number", "mode"], write);
  store.watch(["goalKind", "goalText", "procedure", "history", "horizon", "conditions", "why"], write);
  find(dialog, "form").addEventListener("submit", useToken);
  dialog.addEventListener("cancel", onTokenClosed);
  window.addEventListener("unauthorized", askForToken);
  window.addEventListener("hashchange", () => void (readAddress().token ? startUp() : restore(readAddress())));
}
