/** The chosen plan as a numbered list from start to goal, with a picture of each step. */

import { frameAddress, stepPictureAddress } from "./api.js";
import { icon, make } from "./dom.js";
import { formatTime } from "./format.js";
import { showPicture } from "./pictures.js";
import { stepActions } from "./step-actions.js";
import { goalKindOf } from "./store.js";
import { View } from "./view.js";

/** @import {Answer, Info, Moment, State, StepFacts} from "./types.js" */

const PICTURE_WIDTH = 96;

export class PlanSteps extends View {
  static watches = /** @type {const} */ (["answer", "chosen", "start", "goal", "goalKind", "goalText"]);

  #list = make("ol", { class: "steps", role: "list", "aria-label": "Steps of the plan" });
  #start = make("p", { class: "end start" });
  #goal = make("p", { class: "end goal" });

  /** @type {string[]} */
  #shown = [];

  build() {
    this.append(this.#start, this.#list, this.#goal);
  }

  /** @param {State} state */
  render(state) {
    const { answer, chosen, info, planning } = state;
    if (!answer || !info) return;
    if (!planning) this.#renderEnds(state);
    const { steps } = answer.plans[chosen];
    if (steps === this.#shown) return;
    this.#shown = steps;
    this.#renderSteps(steps, answer, info);
  }

  /**
   * Every step has a place for a picture, unless no step has one.
   *
   * @param {string[]} steps
   * @param {Answer} answer
   * @param {Info} info
   */
  #renderSteps(steps, answer, info) {
    const addresses = steps.map((name) => pictureOf(name, answer.steps[name], info));
    const images = addresses.map(() =>
      make("img", { alt: "", hidden: true, width: PICTURE_WIDTH, height: PICTURE_WIDTH }),
    );
    const isOpen = answer.source === "chain"; // to conditions
    this.#list.replaceChildren(...steps.map((name, index) => stepItem(name, images[index], isOpen)));
    this.#reserve(addresses.some(Boolean));
    const arrivals = addresses.map((address, index) => showPicture(images[index], address));
    void Promise.all(arrivals).then((found) => steps === this.#shown && this.#reserve(found.includes(true)));
  }

  /** @param {boolean} hasPictures */
  #reserve(hasPictures) {
    this.#list.classList.toggle("has-pictures", hasPictures);
  }

  /** @param {State} state */
  #renderEnds(state) {
    const kind = goalKindOf(state);
    const words = kind === "words" ? ` ${state.goalText}` : momentWords(state.goal);
    this.#start.replaceChildren(make("strong", {}, "Start"), momentWords(state.start));
    this.#goal.replaceChildren(make("strong", {}, "Goal"), kind === "none" ? " not said" : words);
    this.classList.toggle("no-goal", kind === "none");
  }
}

/** @param {string} name @param {HTMLImageElement} image @param {boolean} isOpen  to conditions */
function stepItem(name, image, isOpen) {
  const picture = make("span", { class: "step-picture" }, image, icon("picture"));
  const actions = isOpen ? stepActions(name) : [];
  return make("li", { "data-step": name }, picture, make("span", { class: "step-name" }, name), ...actions);
}

/** @param {string} name @param {StepFacts | undefined} step @param {Info} info */
function pictureOf(name, step, info) {
  if (step?.picture) return frameAddress(step.picture.video, step.picture.t, PICTURE_WIDTH);
  const index = step?.index ?? info.actions.indexOf(name); // the service describes the steps of the first plans only
  return info.step_pictures && index >= 0 ? stepPictureAddress(index) : null;
}

/** @param {Moment | null} moment */
function momentWords(moment) {
  if (moment === null) return "";
  return "t" in moment ? ` ${formatTime(moment.t)}` : ` ${moment.name}`;
}

customElements.define("plan-steps", PlanSteps);
