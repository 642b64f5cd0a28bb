/** Parts of the video that may be steps: accepted or skipped one by one. */

import { getSuggestions } from "./annotate-api.js";
import { namePart, now, putStep, set } from "./annotating.js";
import { announce, button, make } from "./dom.js";
import { counted, formatTime, roundPercent } from "./format.js";
import { seek } from "./playback.js";
import { problemOf } from "./problems.js";
import { store } from "./store.js";
import { View } from "./view.js";

/** @import {Suggestion} from "./types.js" */

let isNaming = false; // a suggestion that was accepted

/** Ask the service for suggestions, and show those where there is no step yet. */
export async function suggest() {
  const { video } = store.state;
  if (!video || now().suggesting) return;
  const isSame = () => store.state.video?.id === video.id;
  set({ suggesting: "Looking for steps…" });
  try {
    const onProgress = (/** @type {number} */ share) =>
      isSame() && set({ suggesting: `Looking for steps… ${Math.round(100 * share)}\u00a0%` });
    const { suggestions, learned_from } = await getSuggestions(video.id, now().annotator, onProgress);
    if (!isSame()) return;
    const left = suggestions.filter((part) => !isTaken(part));
    set({ suggestions: left, suggesting: null, learnedFrom: learned_from });
    announce(left.length ? `${counted(left.length, "part")} found. Press A to accept, X to skip.` : "Nothing is left.");
    if (left.length) seek(left[0].start_s);
  } catch (error) {
    if (!isSame()) return;
    const { message } = problemOf(error);
    set({ suggesting: null, suggestions: null, savingProblem: message });
    announce(`There are no suggestions: ${message}`);
  }
}

/** Whether half of a part has a step already. @param {Suggestion} part */
function isTaken({ start_s, end_s }) {
  const shared = now().annotation.steps.map((step) =>
    Math.max(0, Math.min(end_s, step.end_s) - Math.max(start_s, step.start_s)),
  );
  return 2 * shared.reduce((sum, one) => sum + one, 0) > end_s - start_s;
}

/** Accept the next suggestion; where nothing names it, ask for the name. Without suggestions, ask for these. */
export function accept() {
  const [part, ...left] = now().suggestions ?? [];
  if (!part) return void suggest();
  if (part.step) {
    next();
    putStep({ step: part.step, start_s: part.start_s, end_s: part.end_s });
  } else {
    isNaming = true; // the playhead stays, so that the picture shows what is named
    set({ suggestions: left });
    namePart(part);
  }
}

/** Skip the next suggestion. */
export function skip() {
  if (now().suggestions?.length) next();
}

function next() {
  const left = (now().suggestions ?? []).slice(1);
  set({ suggestions: left });
  if (left.length) seek(left[0].start_s);
}

export class AnnotateSuggestions extends View {
  static watches = /** @type {const} */ (["annotating"]);

  #text = make("p", { id: "suggestion" });
  #ask = button("suggest", "Suggest steps", () => void suggest(), { class: "button", id: "suggest" });
  #accept = button(null, "Accept", accept, { class: "button primary", id: "accept" });
  #skip = button(null, "Skip", skip, { class: "button", id: "skip" });

  build() {
    this.append(this.#text, make("div", { class: "buttons" }, this.#ask, this.#accept, this.#skip));
    this.#accept.append(make("kbd", { "aria-hidden": "true" }, "A"));
    this.#skip.append(make("kbd", { "aria-hidden": "true" }, "X"));
  }

  render() {
    const { suggestions, suggesting, learnedFrom, edited, annotation, knownTasks } = now();
    const part = suggestions?.[0];
    if (isNaming && !edited) {
      isNaming = false;
      if (part) seek(part.start_s);
    }
    this.hidden = edited !== null;
    this.dataset.shows = suggesting ? "looking" : part ? "suggestion" : suggestions ? "none" : "nothing";
    this.#ask.hidden = Boolean(part);
    this.#ask.toggleAttribute("disabled", Boolean(suggesting));
    this.#accept.hidden = this.#skip.hidden = !part;
    const hint = !annotation.task && knownTasks.length > 1 ? "Name the procedure first: suggestions can then have names." : "";
    const about = part ? describe(part, suggestions.length, learnedFrom) : suggestions ? "No suggestions are left." : hint;
    this.#text.textContent = suggesting ?? about;
    this.#text.hidden = this.#text.textContent === "";
  }
}

/** @param {Suggestion} part @param {number} left @param {number} learnedFrom */
function describe({ start_s, end_s, step, probability }, left, learnedFrom) {
  const times = `${formatTime(start_s)}\u2009–\u2009${formatTime(end_s)}`;
  const name = step ? `${step} (${roundPercent(probability ?? 0)})` : "a step";
  const source = learnedFrom ? `learned from ${counted(learnedFrom, "video")}` : "where the picture changes";
  return `Suggested: ${name}, ${times}. ${counted(left, "suggestion")} left, ${source}.`;
}

customElements.define("annotate-suggestions", AnnotateSuggestions);
