/** What one can say about a step of a plan, by a click: that it is left out, first, needed or done already. */

import { addCondition, KINDS, OFFERED } from "./conditions.js";
import { button, find, make } from "./dom.js";

/** @import {ConditionKind} from "./types.js" */

let number = 0;

/**
 * A button that unfolds the conditions of a step, and what it unfolds.
 *
 * @param {string} step
 * @returns {[HTMLButtonElement, HTMLElement]}
 */
export function stepActions(step) {
  number += 1;
  const id = `step-actions-${number}`;
  const choices = make("div", { class: "step-actions", id, role: "group", "aria-label": `Conditions: ${step}` });
  choices.hidden = true;
  choices.append(
    ...OFFERED.map((kind) =>
      button(null, KINDS[kind].button, () => choose(kind, step), {
        class: "button small",
        "data-kind": kind,
      }),
    ),
  );
  const toggle = button("more", "", () => open(toggle, choices), {
    class: "icon-button step-more",
    "aria-label": `Change this step: ${step}`,
    "aria-expanded": "false",
    "aria-controls": id,
  });
  return [toggle, choices];
}

/** Set a condition. The list is made again, so the focus goes on to it. @param {ConditionKind} kind @param {string} step */
function choose(kind, step) {
  addCondition({ kind, step });
  window.requestAnimationFrame(() => find(document, ".chips li:nth-last-child(1 of :has(.chip)) .chip").focus());
}

/** Unfold or fold; only one step is unfolded at a time. @param {HTMLElement} toggle @param {HTMLElement} choices */
function open(toggle, choices) {
  const isOpen = choices.hidden;
  for (const other of document.querySelectorAll(".step-more[aria-expanded=true]")) {
    other.setAttribute("aria-expanded", "false");
    const shown = document.getElementById(other.getAttribute("aria-controls") ?? "");
    if (shown) shown.hidden = true;
  }
  choices.hidden = !isOpen;
  toggle.setAttribute("aria-expanded", `${isOpen}`);
}
