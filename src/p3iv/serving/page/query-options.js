/** What the plans must be like: the procedure, the number of steps with how probable each is, and the conditions. */

import { KINDS, removeAllConditions, removeCondition, wordsOf } from "./conditions.js";
import { button, find, icon, make } from "./dom.js";
import { percent } from "./format.js";
import { setQuery } from "./planning.js";
import { store, understands } from "./store.js";
import { View } from "./view.js";

/** @import {Answer, Condition, Info, State} from "./types.js" */

const ANY = "any";

export class QueryOptions extends View {
  static watches = /** @type {const} */ (["info", "procedure", "horizon", "conditions", "answer", "planning", "mode"]);

  #select = make("select", { id: "procedure", change: () => chooseProcedure(this.#select.value) });
  #procedure = make("label", { class: "procedure" }, make("span", {}, "Procedure"), this.#select);
  #lengths = make("fieldset", { class: "lengths" }, make("legend", {}, "Number of steps"));
  #chips = make("ul", { class: "chips", role: "list", "aria-label": "Conditions" });
  #all = button(null, "Remove all", () => clear(), { class: "button small", id: "remove-conditions" });

  /** @type {Info | null} */
  #info = null;

  /** @type {Condition[]} */
  #shown = [];

  build() {
    this.append(make("div", { class: "options" }, this.#procedure, this.#lengths), this.#chips);
  }

  /** @param {State} state */
  render(state) {
    const { info, procedure, horizon, conditions, answer, planning, mode } = state;
    if (!info) return;
    if (info !== this.#info) this.#fill(info);
    this.#info = info;
    this.#procedure.hidden = !understands(state, "procedure");
    this.#lengths.hidden = info.horizons.length < 2;
    this.#select.value = procedure ?? "";
    const chosen = /** @type {HTMLInputElement} */ (find(this.#lengths, `[value="${horizon ?? ANY}"]`));
    chosen.checked = true;
    if (!planning) this.#showLengths(mode === "plan" ? answer : null);
    this.#showConditions(conditions);
  }

  /** @param {Info} info */
  #fill({ procedures, horizons }) {
    const options = procedures.map((name) => make("option", { value: name }, name));
    this.#select.replaceChildren(make("option", { value: "" }, "not known"), ...options);
    for (const old of this.#lengths.querySelectorAll("label")) old.remove();
    this.#lengths.append(lengthChoice(null), ...horizons.map(lengthChoice));
  }

  /** How probable every length is. @param {Answer | null} answer */
  #showLengths(answer) {
    const shares = new Map((answer?.lengths ?? []).map(({ steps, probability }) => [`${steps}`, probability]));
    const most = Math.max(...shares.values(), 1e-9);
    this.#lengths.classList.toggle("has-bars", shares.size > 0);
    for (const label of this.#lengths.querySelectorAll("label")) {
      const value = find(label, "input").getAttribute("value") ?? "";
      const share = shares.get(value);
      label.style.setProperty("--share", `${(share ?? 0) / most}`);
      const words = share === undefined ? "" : percent(share, 0);
      find(label, ".sr").textContent = `${spokenLength(value)}${words && `, ${words}`}`;
      label.title = words;
    }
  }

  /** @param {Condition[]} conditions */
  #showConditions(conditions) {
    if (conditions === this.#shown && this.#chips.childElementCount > 0) return;
    this.#shown = conditions;
    this.#chips.hidden = conditions.length === 0;
    this.#chips.replaceChildren(...conditions.map(chipOf));
    if (conditions.length > 1) this.#chips.append(make("li", {}, this.#all));
  }
}

/** @param {string} name */
function chooseProcedure(name) {
  setQuery({ procedure: name || null });
}

/** @param {string} value */
function spokenLength(value) {
  if (value === ANY) return "Any number";
  return value === "1" ? "1 step" : `${value} steps`;
}

/** @param {number | null} number of steps; null: any */
function lengthChoice(number) {
  const input = make("input", { type: "radio", name: "steps", value: number ?? ANY });
  input.addEventListener("change", () => setQuery({ horizon: number }));
  return make(
    "label",
    { class: number === null ? "length-choice is-any" : "length-choice" },
    input,
    number === null ? null : make("span", { class: "length-bar", "aria-hidden": "true" }),
    make("span", { "aria-hidden": "true" }, number === null ? "Any" : `${number}`),
    make("span", { class: "sr" }),
  );
}

/** @param {Condition} condition */
function chipOf(condition) {
  const words = wordsOf(condition);
  const chip = make(
    "button",
    {
      type: "button",
      class: "chip",
      "data-condition": condition.kind,
      "aria-label": `Remove the condition: ${words}`,
      click: () => remove(condition),
    },
    make("span", {}, make("span", { class: "chip-kind" }, KINDS[condition.kind].words), ` ${condition.step}`),
    icon("close"),
  );
  return make("li", {}, chip);
}

/** Remove a condition; the focus goes on to the next one, or to the title of the plans. @param {Condition} condition */
function remove(condition) {
  const index = store.state.conditions.indexOf(condition);
  removeCondition(condition);
  window.requestAnimationFrame(() => {
    const chips = document.querySelectorAll(".chip");
    const next = chips[Math.min(index, chips.length - 1)] ?? find(document, "#plans");
    /** @type {HTMLElement} */ (next).focus();
  });
}

function clear() {
  removeAllConditions();
  find(document, "#plans").focus();
}

customElements.define("query-options", QueryOptions);
