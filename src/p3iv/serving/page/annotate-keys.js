/** The keys of the annotator. They can be switched off, for those who speak to their computer. */

import { openNext } from "./annotate-saving.js";
import { accept, skip } from "./annotate-suggestions.js";
import { edit, markIn, markOut, moveEdge, now, redo, remove, select, selectNext, set, undo } from "./annotating.js";
import { find } from "./dom.js";
import { stepFrames, stepSeconds, togglePlay } from "./playback.js";

const dialog = /** @type {HTMLDialogElement} */ (find(document, "#help-dialog"));
const toggle = /** @type {HTMLInputElement} */ (find(document, "#keys-on"));

/** Keys and what they do; the same keys are in the help dialog of annotate.html. @type {Record<string, () => unknown>} */
const KEYS = {
  " ": togglePlay,
  ArrowLeft: () => stepFrames(-1),
  ArrowRight: () => stepFrames(1),
  "shift ArrowLeft": () => stepSeconds(-1),
  "shift ArrowRight": () => stepSeconds(1),
  ArrowUp: () => selectNext(-1),
  ArrowDown: () => selectNext(1),
  k: () => selectNext(-1),
  j: () => selectNext(1),
  i: markIn,
  o: markOut,
  "[": () => moveEdge("start_s"),
  "]": () => moveEdge("end_s"),
  Enter: () => edit(),
  Delete: () => remove(),
  Backspace: () => remove(),
  a: accept,
  x: skip,
  n: () => openNext(1),
  p: () => openNext(-1),
  Escape: leave,
  "?": openHelp,
};

/** Forget the mark, then the selection. */
function leave() {
  if (now().marked !== null) set({ marked: null });
  else select(null);
}

function openHelp() {
  if (!dialog.open) dialog.showModal();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.defaultPrevented || event.altKey || document.querySelector("dialog[open]") || isTaken(event)) return;
  const isUndo = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z";
  if (!isUndo && (event.ctrlKey || event.metaKey || !toggle.checked)) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const command = KEYS[event.shiftKey && event.key.length > 1 ? `shift ${name}` : name];
  const run = isUndo ? (event.shiftKey ? redo : undo) : command;
  if (!run) return;
  event.preventDefault();
  run();
}

/** Whether the element with the focus needs the key itself. @param {KeyboardEvent} event */
function isTaken({ target, key }) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.matches("input:not([type=checkbox]), textarea, select")) return true;
  if (key === " " || key === "Enter") return target.matches("button, summary, a, input");
  return key.startsWith("Arrow") && target.matches(".table-box");
}

export function acceptKeys() {
  document.addEventListener("keydown", onKey);
  find(document, "#help-button").addEventListener("click", openHelp);
}
