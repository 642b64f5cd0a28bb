/**
 * Errors as the page shows them: what happened, what helps, and a way back.
 *
 * @import {Problem} from "./types.js"
 */

import { ServiceError } from "./api.js";
import { button, make } from "./dom.js";

/**
 * @param {unknown} error
 * @param {(() => void) | null} [retry]
 * @returns {Problem}
 */
export function problemOf(error, retry = null) {
  if (error instanceof ServiceError) return { message: error.message, hint: error.hint, retry, code: error.code };
  console.error(error);
  return { message: "The page made a mistake.", hint: `${error}`, retry };
}

/**
 * A box that shows a problem.
 *
 * @param {Problem} problem
 * @param {{text: string, run: () => void}} wayBack  besides "Try again"
 */
export function problemBox(problem, wayBack) {
  const again =
    problem.retry && button(null, "Try again", problem.retry, { class: "button primary", "data-action": "retry" });
  return make(
    "div",
    { class: "problem" },
    make("p", { class: "problem-message" }, problem.message),
    problem.hint ? make("p", { class: "problem-hint" }, problem.hint) : null,
    make(
      "div",
      { class: "buttons" },
      again,
      button(null, wayBack.text, wayBack.run, { class: "button", "data-action": "way-back" }),
    ),
  );
}
