/**
 * What an annotator does: mark, name, change and remove steps, undo and redo. Saving follows every change.
 *
 * @import {AnnotatedStep, Annotating, Annotation} from "./types.js"
 */

import { announce } from "./dom.js";
import { counted, formatTime, roundTime } from "./format.js";
import { clampTime, seek } from "./playback.js";
import { store } from "./store.js";

const MAX_UNDO = 500;

/** @type {Annotation} */
const NOTHING = { task: "", steps: [] };

/** @type {Annotating} */
const EMPTY = {
  annotator: "main",
  annotators: ["main"],
  videos: [],
  knownSteps: [],
  knownTasks: [],
  annotation: NOTHING,
  selected: null,
  marked: null,
  edited: null,
  saving: "loading",
  savingProblem: null,
  theirs: null,
  suggestions: null,
  suggesting: null,
  learnedFrom: 0,
  undoable: 0,
  redoable: 0,
  job: null,
};

/** Earlier and later versions of the chosen video. @type {Annotation[]} */
let past = [];

/** @type {Annotation[]} */
let future = [];

/** Is called with every change that is to be saved. @type {() => void} */
let onChange = () => {};

/** @param {() => void} save */
export function saveWith(save) {
  onChange = save;
}

/** @returns {Annotating} */
export function now() {
  return store.state.annotating ?? EMPTY;
}

/** Change parts of the state. @param {Partial<Annotating>} changes */
export function set(changes) {
  store.set({ annotating: { ...now(), ...changes } });
}

/** Show the stored steps of a video; what was done before cannot be undone. @param {Annotation} annotation */
export function show(annotation) {
  [past, future] = [[], []];
  set({ annotation, selected: null, marked: null, edited: null, undoable: 0, redoable: 0 });
}

/** Whether steps can be changed now. */
function isOpen() {
  const { saving } = now();
  return store.state.video !== null && saving !== "loading" && saving !== "conflict";
}

/** @param {Annotation} annotation @param {AnnotatedStep | null} selected */
function apply(annotation, selected) {
  const { knownSteps, knownTasks } = now();
  const steps = [...annotation.steps].sort((one, other) => one.start_s - other.start_s || one.end_s - other.end_s);
  set({
    annotation: { task: annotation.task, steps },
    selected,
    undoable: past.length,
    redoable: future.length,
    knownSteps: withNew(knownSteps, steps.map(({ step }) => step)), // prettier-ignore
    knownTasks: withNew(knownTasks, annotation.task ? [annotation.task] : []),
  });
  onChange();
}

/** @param {string[]} known @param {string[]} used */
function withNew(known, used) {
  const added = [...new Set(used)].filter((name) => !known.includes(name));
  return added.length ? [...known, ...added] : known;
}

/** A change that can be undone. @param {Partial<Annotation>} changes @param {AnnotatedStep | null} selected */
function change(changes, selected) {
  if (!isOpen()) return;
  past = [...past.slice(-MAX_UNDO), now().annotation];
  future = [];
  apply({ ...now().annotation, ...changes }, selected);
}

export function undo() {
  const last = isOpen() ? past.pop() : null;
  if (!last) return void announce("There is nothing to undo.");
  future.push(now().annotation);
  apply(last, null);
  announce(`Undone: ${counted(last.steps.length, "step")}.`);
}

export function redo() {
  const next = isOpen() ? future.pop() : null;
  if (!next) return void announce("There is nothing to redo.");
  past.push(now().annotation);
  apply(next, null);
  announce(`Done again: ${counted(next.steps.length, "step")}.`);
}

/** @param {string} task */
export function setTask(task) {
  const name = task.trim();
  if (name !== now().annotation.task) change({ task: name }, now().selected);
}

/** Begin a step at the playhead. */
export function markIn() {
  if (!isOpen()) return;
  const marked = clampTime(roundTime(store.state.playhead));
  set({ marked });
  announce(`A step begins at ${formatTime(marked)}.`);
}

/** End a step at the playhead and ask for its name. It begins where that was marked, or at the last end before it. */
export function markOut() {
  if (!isOpen()) return;
  const end = clampTime(roundTime(store.state.playhead));
  const ends = now().annotation.steps.map(({ end_s }) => end_s).filter((each) => each <= end);
  const begin = now().marked ?? Math.max(0, ...ends);
  store.set({ isPlaying: false });
  set({ edited: { start_s: Math.min(begin, end), end_s: Math.max(begin, end), step: "", replaces: null } });
}

/** Name a part of the video. @param {{start_s: number, end_s: number}} part */
export function namePart({ start_s, end_s }) {
  if (isOpen()) set({ edited: { start_s, end_s, step: "", replaces: null } });
}

/** Change a step, or the selected one. @param {AnnotatedStep | null} [step] */
export function edit(step = now().selected) {
  if (step && isOpen()) set({ edited: { ...step, replaces: step } });
}

export function cancelEdit() {
  set({ edited: null });
}

/**
 * Add a step, or replace the one that is edited.
 *
 * @param {AnnotatedStep} step
 * @param {AnnotatedStep | null} [replaced]
 */
export function putStep(step, replaced = null) {
  const { annotation, knownTasks } = now();
  const task = annotation.task || (knownTasks.length === 1 ? knownTasks[0] : ""); // most folders show one procedure
  set({ edited: null, marked: null });
  change({ task, steps: [...annotation.steps.filter((each) => each !== replaced), step] }, step);
  announce(`${step.step}, ${formatTime(step.start_s)} to ${formatTime(step.end_s)}.`);
}

/** Move the start or the end of the selected step to the playhead. @param {"start_s" | "end_s"} which */
export function moveEdge(which) {
  const step = now().selected;
  if (!step) return;
  const second = clampTime(roundTime(store.state.playhead));
  const moved = { ...step, [which]: second };
  if (moved.end_s < moved.start_s) return void announce("A step ends after it begins.");
  putStep(moved, step);
}

/** Remove a step, or the selected one. @param {AnnotatedStep | null} [step] */
export function remove(step = now().selected) {
  if (!step) return;
  const { steps } = now().annotation;
  const left = steps.filter((each) => each !== step);
  change({ steps: left }, left[Math.min(steps.indexOf(step), left.length - 1)] ?? null);
  announce(`${step.step} is removed; ${counted(left.length, "step")} left.`);
}

/** Select a step and go to its start. @param {AnnotatedStep | null} step */
export function select(step) {
  set({ selected: step });
  if (!step) return;
  seek(step.start_s);
  announce(`${step.step}, ${formatTime(step.start_s)} to ${formatTime(step.end_s)}.`);
}

/** Select the step after or before the selected one, or the first after the playhead. @param {1 | -1} direction */
export function selectNext(direction) {
  const { annotation, selected } = now();
  const { steps } = annotation;
  if (!steps.length) return;
  const at = selected ? steps.indexOf(selected) : -1;
  const after = steps.findIndex(({ start_s }) => start_s >= store.state.playhead - 1e-6);
  const first = direction === 1 ? (after < 0 ? steps.length - 1 : after) : (after < 0 ? steps.length : after) - 1;
  const next = at < 0 ? first : at + direction;
  select(steps[Math.min(Math.max(next, 0), steps.length - 1)]);
}
