/** Copy the plans as text or JSON, or save their graph as a file. */

import { announce, button, find, make } from "./dom.js";
import { percent } from "./format.js";
import { restOf } from "./planning.js";
import { store } from "./store.js";
import { View } from "./view.js";

/** @import {Answer, State} from "./types.js" */

const SAID_MS = 1600;
const TEXT_PLANS = 5;

export class PlanTools extends View {
  static watches = /** @type {const} */ (["answer"]);

  build() {
    this.append(
      copyButton("Copy as text", () => asText(store.state.answer), { id: "copy-text" }),
      copyButton("Copy as JSON", () => asJson(store.state.answer), { id: "copy-json" }),
      button("save", "Save the graph", saveGraph, { class: "button small", id: "save-svg" }),
    );
  }

  /** @param {State} state */
  render({ answer }) {
    find(this, "#save-svg").hidden = !answer?.graph;
  }
}

/**
 * A button that copies a text and says so.
 *
 * @param {string} label
 * @param {() => string} text
 * @param {Record<string, string>} attributes
 */
export function copyButton(label, text, attributes) {
  const element = button("copy", label, () => void run(), { class: "button small", ...attributes });
  async function run() {
    const words = find(element, "span");
    words.textContent = (await copy(text())) ? "Copied" : "Not copied";
    announce(words.textContent);
    window.setTimeout(() => (words.textContent = label), SAID_MS);
  }
  return element;
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text); // pages that are not from this machine and without https have no clipboard
  }
}

/** @param {string} text */
function copySelected(text) {
  const field = make("textarea", { class: "sr", "aria-hidden": "true" });
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  return isCopied;
}

/** The plans as `p3iv plan` prints them. @param {Answer | null} answer */
function asText(answer) {
  if (!answer) return "";
  const share = plain(percent(answer.plan_probability));
  const isExact = answer.source === "chain";
  const rest = restOf(answer, TEXT_PLANS);
  const line = (/** @type {number} */ probability, /** @type {string} */ words) =>
    `  ${plain(percent(probability)).padStart(7)}  ${words}`;
  return [
    ...(answer.understood ?? []).flatMap((words) => [words, ""]),
    isExact ? `plan (probability ${share}):` : `plan (${share} of the planner's samples):`,
    ...answer.plan.map((step, index) => `  ${index + 1}. ${step}`),
    ...(answer.lengths ? ["", `number of steps: ${lengthsText(answer.lengths)}`] : []),
    "",
    isExact ? "most probable plans:" : "this plan, then the most frequent samples:",
    ...answer.plans.slice(0, TEXT_PLANS).map(({ steps, probability }) => line(probability, steps.join(" -> "))),
    ...(rest > 1e-6 ? [line(rest, "all other plans")] : []),
  ].join("\n");
}

/** @param {NonNullable<Answer["lengths"]>} lengths */
function lengthsText(lengths) {
  return lengths.map(({ steps, probability }) => `${steps}: ${plain(percent(probability))}`).join(", ");
}

/** @param {string} text with no-break spaces */
function plain(text) {
  return text.replaceAll("\u00a0", " ");
}

/** The fields of `p3iv plan --json`. @param {Answer | null} answer */
function asJson(answer) {
  if (!answer) return "";
  const { plan, plan_probability, source, plans, samples, lengths, understood } = answer;
  const why = store.state.reasons?.why;
  return JSON.stringify({ plan, plan_probability, source, plans, samples, lengths, understood, why }, null, 2);
}

function saveGraph() {
  const svg = store.state.answer?.graph?.svg;
  if (!svg) return;
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  make("a", { href: address, download: "plans.svg" }).click();
  window.setTimeout(() => URL.revokeObjectURL(address), 1000);
}

customElements.define("plan-tools", PlanTools);
