/**
 * Conditions that a user sets by a click on a step, in the order in which they were set.
 *
 * @import {Condition, ConditionKind, Problem, State} from "./types.js"
 */

import { announce, find } from "./dom.js";
import { planNow } from "./planning.js";
import { goalKindOf, store } from "./store.js";

/** What can be said about a step: on its button, and before its name. */
export const KINDS = /** @type {const} */ ({
  without: { button: "Leave it out", words: "without" },
  first: { button: "Do it first", words: "first" },
  with: { button: "Must be in it", words: "with" },
  done: { button: "Already done", words: "already done:" },
  last: { button: "Do it last", words: "last" },
});

/** The buttons of a step; "last" comes from addresses and is shown, too. @type {readonly ConditionKind[]} */
export const OFFERED = ["without", "first", "with", "done"];

/** Of these a plan can have one only. @type {readonly ConditionKind[]} */
const SINGLE = ["first", "last"];

/** With these, a step is not in the plan. @type {readonly ConditionKind[]} */
const EXCLUDING = ["without", "done"];

/** @param {Condition} condition */
export function wordsOf({ kind, step }) {
  return `${KINDS[kind].words} ${step}`;
}

/** Set a condition; those that contradict it, and the same one, go. @param {Condition} condition */
export function addCondition(condition) {
  const excludes = EXCLUDING.includes(condition.kind);
  const others = store.state.conditions.filter(({ kind, step }) => {
    if (SINGLE.includes(kind) && kind === condition.kind) return false;
    return step !== condition.step || (kind !== condition.kind && EXCLUDING.includes(kind) === excludes);
  });
  change([...others, condition], `Condition: ${wordsOf(condition)}.`);
}

/** @param {Condition} condition */
export function removeCondition(condition) {
  const rest = store.state.conditions.filter((one) => one !== condition);
  change(rest, `No longer a condition: ${wordsOf(condition)}.`);
}

export function removeAllConditions() {
  change([], "There are no conditions any more.");
}

/**
 * What leads from a problem to a query that has plans, if it is the query that has none.
 *
 * @param {Problem} problem
 * @param {State} state
 */
export function queryWayBack({ code }, state) {
  if (code !== "cannot_plan") return null;
  const last = state.conditions.at(-1);
  if (last) return { text: "Remove the last condition", run: () => removeCondition(last) };
  if (goalKindOf(state) !== "words") return null;
  return { text: "Say it in other words", run: () => find(document, "#goal-text").focus() };
}

/** @param {Condition[]} conditions @param {string} words */
function change(conditions, words) {
  store.set({ conditions });
  announce(words);
  planNow();
}
