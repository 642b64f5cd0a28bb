/** All plans as rows with bars; a click or a key from 1 to 9 chooses the plan that the list shows. */

import { button, find, make } from "./dom.js";
import { counted, percent } from "./format.js";
import { choosePlan, restOf } from "./planning.js";
import { store } from "./store.js";
import { View } from "./view.js";

/** @import {Answer, Plan, State} from "./types.js" */

const FIRST_ROWS = 5;

export class PlanRows extends View {
  static watches = /** @type {const} */ (["answer", "chosen"]);

  #list = make("ol", { class: "rows", role: "list" });
  #rest = make("p", { class: "rest" });
  #more = button(null, "", () => this.#showAll(), { class: "button small", id: "more-plans" });

  /** @type {Answer | null} */
  #answer = null;

  #number = FIRST_ROWS;

  build() {
    this.append(
      make("h3", { id: "rows-title" }, "All plans, the most probable first"),
      this.#list,
      this.#rest,
      this.#more,
    );
    this.#list.setAttribute("aria-labelledby", "rows-title");
  }

  /** @param {State} state */
  render({ answer, chosen }) {
    if (!answer) return;
    if (answer !== this.#answer) {
      this.#answer = answer;
      this.#number = FIRST_ROWS;
      this.#draw(answer);
    }
    if (chosen >= this.#number) this.#showAll();
    this.#mark(chosen);
  }

  /** @param {number} chosen */
  #mark(chosen) {
    for (const row of this.querySelectorAll("[data-plan]")) {
      row.setAttribute("aria-pressed", `${row.getAttribute("data-plan") === `${chosen}`}`);
    }
  }

  /** @param {Answer} answer */
  #draw(answer) {
    const listed = answer.plans.slice(0, this.#number);
    this.#list.replaceChildren(...listed.map((plan, index) => rowOf(plan, index, answer.plan)));
    const rest = restOf(answer, listed.length);
    this.#rest.hidden = rest < 1e-6;
    this.#rest.replaceChildren(
      make("span", {}, "All other plans together"),
      barOf(rest),
      make("span", { class: "share" }, percent(rest)),
    );
    const hidden = answer.plans.length - listed.length;
    this.#more.hidden = hidden <= 0;
    find(this.#more, "span").textContent = `Show ${counted(hidden, "more plan")}`;
  }

  #showAll() {
    if (!this.#answer) return;
    const next = this.#number;
    const hadFocus = document.activeElement === this.#more;
    this.#number = this.#answer.plans.length;
    this.#draw(this.#answer);
    this.#mark(store.state.chosen);
    if (hadFocus) find(this, `[data-plan="${next}"]`).focus();
  }
}

/** @param {Plan} plan @param {number} index @param {string[]} recommended */
function rowOf({ steps, probability }, index, recommended) {
  const words = steps.flatMap((step, place) => {
    const kind = index === 0 || step === recommended[place] ? "same" : "other";
    return [...(place ? arrow() : []), make("span", { class: kind }, step)];
  });
  const row = make(
    "button",
    {
      type: "button",
      class: "row",
      "data-plan": index,
      click: () => choosePlan(index),
      "aria-keyshortcuts": index < 9 ? `${index + 1}` : null,
    },
    make("span", { class: "number" }, `${index + 1}`),
    make("span", { class: "words" }, ...words),
    barOf(probability),
    make("span", { class: "share" }, percent(probability)),
  );
  return make("li", {}, row);
}

/** What stands between two steps. */
export function arrow() {
  return [make("span", { class: "arrow", "aria-hidden": "true" }, " → "), make("span", { class: "sr" }, " then ")];
}

/** @param {number} share */
function barOf(share) {
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", `${share}`);
  return bar;
}

customElements.define("plan-rows", PlanRows);
