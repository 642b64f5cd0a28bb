/** Why a plan is as probable as it is: what each piece of evidence says for each step, and what would change the plan. */

import { make } from "./dom.js";
import { showWhy } from "./planning.js";
import { store } from "./store.js";
import { View } from "./view.js";

/** @import {Reasons, State, WhyWords} from "./types.js" */

const LEAST = 0.05; // nats that are shown
const MINUS = "\u2212";
const UNITS = "Each number says how much a source speaks for a step, against an average other step at the same place.";
const SCALE = `In nats: +0.7 makes it twice as probable, ${MINUS}0.7 half as probable.`;

export class PlanWhy extends View {
  static watches = /** @type {const} */ (["info", "why", "reasons", "whyProblem", "answer", "chosen"]);

  #details = make("details", { id: "why" });
  #content = make("div", { class: "why-content" });

  build() {
    const key = make("kbd", { "aria-hidden": "true" }, "W");
    const summary = make("summary", { "aria-keyshortcuts": "W" }, "Why this plan?", key);
    this.#details.append(summary, this.#content);
    this.#details.addEventListener("toggle", () => {
      if (this.#details.open !== store.state.why) void showWhy(this.#details.open);
    });
    this.append(this.#details);
  }

  /** @param {State} state */
  render({ info, why, reasons, whyProblem, answer, chosen }) {
    this.hidden = info?.reasons !== true;
    this.#details.open = why;
    if (!why || !answer) return;
    const [found, words] = [reasons?.why[chosen], reasons?.words[chosen]];
    if (whyProblem) this.#content.replaceChildren(make("p", { class: "notice" }, whyProblem.message));
    else if (found && words) this.#content.replaceChildren(...explain(found, words));
    else this.#content.replaceChildren(make("p", { class: "note" }, "Looking for the reasons…"));
  }
}

/** @param {Reasons} reasons @param {WhyWords} words */
function explain(reasons, { headline, change }) {
  return [
    make("p", { class: "headline" }, headline.replaceAll("(-", `(${MINUS}`)),
    change ? make("p", { class: "notice", id: "why-change" }, change.replaceAll("->", "→")) : null,
    make("div", { class: "why-box", tabindex: 0, role: "region", "aria-label": "Table of reasons" }, tableOf(reasons)),
    make("p", { class: "note" }, sumOf(reasons)),
    make("p", { class: "note" }, `${UNITS} ${SCALE}`),
  ].filter((part) => part !== null);
}

/** @param {Reasons} reasons */
function tableOf({ steps }) {
  const sources = Object.keys(steps[0].addends).filter((name) => steps.some(({ addends }) => says(addends[name])));
  const most = Math.max(LEAST, ...steps.flatMap(({ addends }) => sources.map((name) => Math.abs(addends[name]))));
  const head = ["Step", ...sources, "sum"].map((name) => make("th", { scope: "col" }, name));
  const rows = steps.map(({ step, addends }, index) => {
    const values = sources.map((name) => addends[name]);
    return rowOf(`${index + 1}. ${step}`, values, most);
  });
  const totals = sources.map((name) => total(steps.map(({ addends }) => addends[name])));
  return make(
    "table",
    { class: "reasons" },
    make("caption", { class: "sr" }, "What each source adds to each step"),
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows),
    steps.length > 1 ? make("tfoot", {}, rowOf("All steps", totals, null)) : null,
  );
}

/** @param {number} value */
function says(value) {
  return Math.abs(value) >= LEAST;
}

/** @param {string} name @param {number[]} values @param {number | null} most  of all bars; null: no bars */
function rowOf(name, values, most) {
  const cells = values.map((value) => make("td", {}, signed(value), most === null ? null : barOf(value / most)));
  return make(
    "tr",
    {},
    make("th", { scope: "row" }, name),
    ...cells,
    make("td", { class: "sum" }, signed(total(values))),
  );
}

/** @param {number} share  from -1 to 1 */
function barOf(share) {
  const bar = make("span", { class: share < 0 ? "addend is-against" : "addend", "aria-hidden": "true" });
  bar.style.setProperty("--size", `${Math.abs(share)}`);
  return bar;
}

/** How the addends become the probability. @param {Reasons} reasons */
function sumOf({ steps, length, conditions, normaliser, log_probability: result }) {
  const sum = total(steps.flatMap(({ addends }) => Object.values(addends)));
  const parts = Object.entries({ "number of steps": length, conditions }).filter(([, value]) => says(value));
  const words = [["sum", sum], ...parts, ["normaliser", normaliser]].map(
    ([name, value]) => `${name} ${signed(+value)}`,
  );
  return `Together: ${words.join(", ")}; log probability ${signed(result)}.`;
}

/** @param {number[]} values */
function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** @param {number} value */
function signed(value) {
  const digits = Math.abs(value).toFixed(1);
  if (Number(digits) === 0) return "0.0";
  return `${value < 0 ? MINUS : "+"}${digits}`;
}

customElements.define("plan-why", PlanWhy);
