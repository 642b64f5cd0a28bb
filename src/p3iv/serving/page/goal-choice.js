/** What kind of goal there is: a moment, words, or none. In the card of the goal, for planners that know words. */

import { find, make, whenAtRest } from "./dom.js";
import { planSoon, setQuery } from "./planning.js";
import { goalKindOf, store, understands } from "./store.js";
import { View } from "./view.js";

/** @import {GoalKind, Info, State} from "./types.js" */

const TYPING_MS = 800; // words are not read before one pauses
const MAX_TEXT = 500;
const NOTHING_YET = "A step that should come last, or a whole procedure.";
const NO_GOAL = "No goal: the plans say what probably comes next.";

/** @type {readonly (readonly [GoalKind, string])[]} */
const KINDS = [
  ["moment", "Moment"],
  ["words", "Words"],
  ["none", "None"],
];

export class GoalChoice extends View {
  static watches = /** @type {const} */ (["info", "goalKind", "goalText", "answer", "planning", "following"]);

  #kinds = make("fieldset", { class: "segments" }, make("legend", { class: "sr" }, "Kind of goal"));
  #text = make("input", {
    type: "text",
    id: "goal-text",
    list: "known-goals",
    maxlength: MAX_TEXT,
    autocomplete: "off",
    "aria-describedby": "understood",
  });
  #understood = make("p", { class: "note", id: "understood" });
  #known = make("datalist", { id: "known-goals" });
  #words = make(
    "div",
    { class: "goal-words" },
    make("label", { for: "goal-text", class: "card-title" }, "Goal"),
    this.#text,
    this.#understood,
    this.#known,
  );
  #none = make(
    "div",
    { class: "goal-words" },
    make("p", { class: "card-title" }, "Goal"),
    make("p", { class: "note" }, NO_GOAL),
  );

  /** The text of the state that the field has. */
  #written = "";

  #readSoon = whenAtRest(TYPING_MS, () => this.#read());

  build() {
    this.#kinds.append(...KINDS.map(([kind, text]) => segment("goal-kind", kind, text, () => chooseKind(kind))));
    this.#text.addEventListener("input", () => this.#readSoon());
    this.#text.addEventListener("change", () => this.#read());
    this.append(this.#kinds, this.#words, this.#none);
  }

  #read() {
    this.#readSoon.cancel();
    this.#written = this.#text.value.trim();
    if (this.#written === store.state.goalText) return;
    store.set({ goalText: this.#written });
    planSoon();
  }

  /** @param {State} state */
  render(state) {
    this.hidden = !understands(state, "words");
    const kind = goalKindOf(state);
    const chosen = /** @type {HTMLInputElement} */ (find(this.#kinds, `[value="${kind}"]`));
    chosen.checked = true;
    this.#words.hidden = kind !== "words";
    this.#none.hidden = kind !== "none";
    if (state.goalText !== this.#written) {
      this.#written = state.goalText;
      this.#text.value = state.goalText;
    }
    this.#understood.textContent = understoodWords(state);
    if (state.info && this.#known.childElementCount === 0) fill(this.#known, state.info);
  }
}

/** How the service has understood the words. @param {State} state */
function understoodWords({ answer, goalText, planning, following }) {
  if (!goalText) return NOTHING_YET;
  const plans = following ? following.moments[0]?.left : planning ? null : answer;
  const words = plans?.understood?.[0];
  return words ? `${words[0].toUpperCase()}${words.slice(1)}` : "\u00a0";
}

/** @param {GoalKind} kind */
function chooseKind(kind) {
  setQuery({ goalKind: kind });
  if (kind === "words") window.requestAnimationFrame(() => find(document, "#goal-text").focus());
}

/** What the planner knows, to choose from while one types. @param {HTMLElement} list @param {Info} info */
function fill(list, { procedures, actions }) {
  list.append(...[...procedures, ...actions].map((name) => make("option", { value: name })));
}

/**
 * One of several choices side by side.
 *
 * @param {string} name  of the group
 * @param {string} value
 * @param {string} text
 * @param {() => void} onChoose
 */
export function segment(name, value, text, onChoose) {
  const input = make("input", { type: "radio", name, value, change: onChoose });
  return make("label", { class: "segment" }, input, make("span", {}, text));
}

customElements.define("goal-choice", GoalChoice);
