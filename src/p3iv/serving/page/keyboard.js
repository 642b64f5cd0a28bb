/** The keys of the page. They can be switched off, for those who speak to their computer. */

import { find } from "./dom.js";
import { stopFollowing, toggleFollowing } from "./mode.js";
import { choosePlan, setHere, showWhy } from "./planning.js";
import { stepFrames, stepSeconds, togglePlay } from "./playback.js";
import { store } from "./store.js";

const STORED = "p3iv-keys";
const dialog = /** @type {HTMLDialogElement} */ (find(document, "#help-dialog"));
const toggle = /** @type {HTMLInputElement} */ (find(document, "#keys-on"));

/** Keys and what they do; the same keys are in the help dialog of index.html. @type {Record<string, () => unknown>} */
const KEYS = {
  " ": togglePlay,
  ArrowLeft: () => stepFrames(-1),
  ArrowRight: () => stepFrames(1),
  "shift ArrowLeft": () => stepSeconds(-1),
  "shift ArrowRight": () => stepSeconds(1),
  s: () => store.state.mode === "plan" && setHere("start"),
  g: () => setHere("goal"),
  f: toggleFollowing,
  w: toggleWhy,
  "?": openHelp,
};

/** Unfold or fold the reasons of the plan. */
function toggleWhy() {
  const { info, why, answer, mode } = store.state;
  if (!info?.reasons || !answer || mode === "follow") return;
  void showWhy(!why);
  const details = find(document, "#why");
  find(details, "summary").focus({ preventScroll: why });
}

/** Open the list of keys. */
export function openHelp() {
  if (!dialog.open) dialog.showModal();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !toggle.checked) return;
  if (document.querySelector("dialog[open]") || isTaken(event)) return;
  const run = commandOf(event);
  if (!run) return;
  event.preventDefault();
  run();
}

/** @param {KeyboardEvent} event */
function commandOf(event) {
  const { mode } = store.state;
  if (mode === "plan" && /^[1-9]$/.test(event.key)) return () => choosePlan(Number(event.key) - 1);
  if (mode === "follow" && event.key === "Escape") return stopFollowing;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  return KEYS[event.shiftKey && event.key.length > 1 ? `shift ${name}` : name];
}

/** Whether the element with the focus needs the key itself. @param {KeyboardEvent} event */
function isTaken(event) {
  const { target } = event;
  if (!(target instanceof HTMLElement)) return false;
  if (target.matches("input[type=radio]")) return event.key.startsWith("Arrow") || event.key === " ";
  if (target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]")) return true;
  if (event.key === " ") return target.matches("button, summary, a, input, label");
  return event.key.startsWith("Arrow") && target.matches(".graph-box, .why-box, pre");
}

/** What was chosen before; some browsers keep nothing for a page. */
function remembered() {
  try {
    return window.localStorage.getItem(STORED);
  } catch {
    return null;
  }
}

/** @param {string} choice */
function remember(choice) {
  try {
    window.localStorage.setItem(STORED, choice);
  } catch {
    // The choice holds until the page is closed.
  }
}

/** Listen to keys and to the buttons of the help dialog. */
export function acceptKeys() {
  toggle.checked = remembered() !== "off";
  toggle.addEventListener("change", () => remember(toggle.checked ? "on" : "off"));
  document.addEventListener("keydown", onKey);
  find(document, "#help-button").addEventListener("click", openHelp);
}
