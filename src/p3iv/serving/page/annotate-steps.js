/** The steps of the video as a list, its procedure, and whether all is saved. */

import { keepMine, takeTheirs } from "./annotate-saving.js";
import { hueOf } from "./annotate-timeline.js";
import { edit, now, redo, remove, select, setTask, undo } from "./annotating.js";
import { button, find, make } from "./dom.js";
import { counted, formatTime } from "./format.js";
import { View } from "./view.js";

/** @import {AnnotatedStep} from "./types.js" */

const SAVING = {
  loading: "Loading…",
  saved: "Saved",
  saving: "Saving…",
  retrying: "Not saved: trying again…",
  refused: "Not saved",
  conflict: "Changed in another place",
};

export class AnnotateSteps extends View {
  static watches = /** @type {const} */ (["annotating", "video"]);

  #state = make("p", { id: "saving-state" });
  #detail = make("p", { class: "note", id: "saving-problem" });
  #conflict = make("div", { id: "conflict", class: "conflict", role: "alertdialog", "aria-labelledby": "conflict-title" });
  #task = make("input", { id: "task", list: "known-tasks", autocomplete: "off", maxlength: 500 });
  #tasks = make("datalist", { id: "known-tasks" });
  #needed = make("p", { class: "note", id: "task-note" }, "Needed for training: without it, this video is not used.");
  #list = make("ol", { id: "step-list", class: "step-list", role: "list", "aria-labelledby": "steps-title" });
  #nothing = make("p", { class: "note guide-note" });
  #title = make("h2", { id: "steps-title" });
  #undo = button(null, "Undo", undo, { class: "button small", id: "undo" });
  #redo = button(null, "Redo", redo, { class: "button small", id: "redo" });

  /** @type {unknown} */
  #shown = null;

  build() {
    this.#task.addEventListener("change", () => setTask(this.#task.value));
    this.#task.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Escape") this.#task.blur();
    });
    this.#nothing.append(
      "Play the video. Press Begin or ",
      make("kbd", {}, "I"),
      " where a step begins and End or ",
      make("kbd", {}, "O"),
      " where it ends, then type its name.",
    );
    const saving = make("div", { class: "saving" }, this.#state, this.#detail);
    const top = make("div", { class: "steps-top" }, this.#title, make("div", { class: "buttons" }, this.#undo, this.#redo));
    const label = make("label", { for: "task" }, "Procedure");
    const field = make("div", { class: "field" }, label, this.#task, this.#tasks, this.#needed);
    this.append(saving, this.#conflict, field, top, this.#nothing, this.#list);
  }

  render() {
    const { annotation, saving, savingProblem, knownTasks, undoable, redoable } = now();
    this.dataset.saving = saving;
    this.#state.textContent = SAVING[saving];
    this.#detail.textContent = savingProblem ?? "";
    this.#undo.toggleAttribute("disabled", !undoable || saving === "conflict");
    this.#redo.toggleAttribute("disabled", !redoable || saving === "conflict");
    this.#renderConflict();
    if (document.activeElement !== this.#task) this.#task.value = annotation.task;
    this.#needed.hidden = annotation.task !== "" || annotation.steps.length === 0;
    this.#tasks.replaceChildren(...knownTasks.map((task) => make("option", { value: task })));
    this.#title.textContent = counted(annotation.steps.length, "step");
    this.#nothing.hidden = annotation.steps.length > 0 || saving === "loading";
    this.#renderList();
  }

  #renderConflict() {
    const { annotation, theirs } = now();
    this.#conflict.hidden = theirs === null;
    if (!theirs || this.#conflict.childElementCount) {
      if (!theirs) this.#conflict.replaceChildren();
      return;
    }
    const keep = button(null, "Keep mine", keepMine, { class: "button primary", id: "keep-mine" });
    this.#conflict.append(
      make("h2", { id: "conflict-title" }, "These steps were changed in another place"),
      make("p", {}, `Here: ${described(annotation)}.`),
      make("p", {}, `There: ${described(theirs)}.`),
      make("div", { class: "buttons" }, keep, button(null, "Take the other", takeTheirs, { class: "button", id: "take-theirs" })),
    );
    keep.focus();
  }

  #renderList() {
    const { annotation, selected } = now();
    if (this.#shown !== annotation) {
      const hadFocus = this.#list.contains(document.activeElement);
      this.#shown = annotation;
      this.#list.replaceChildren(...annotation.steps.map(rowOf));
      if (hadFocus && selected) this.#row(selected)?.querySelector("button")?.focus();
    }
    for (const [index, row] of [...this.#list.children].entries()) {
      const isSelected = annotation.steps[index] === selected;
      if (isSelected && !row.classList.contains("is-selected")) row.scrollIntoView({ block: "nearest" });
      row.classList.toggle("is-selected", isSelected);
      find(row, ".step-choice").setAttribute("aria-pressed", `${isSelected}`);
    }
  }

  /** @param {AnnotatedStep} step */
  #row(step) {
    return this.#list.children[now().annotation.steps.indexOf(step)];
  }
}

/** @param {{task: string, steps: AnnotatedStep[]}} annotation */
function described({ task, steps }) {
  return `${counted(steps.length, "step")}, ${task ? `procedure ${task}` : "no procedure"}`;
}

/** @param {AnnotatedStep} step */
function rowOf(step) {
  const times = `${formatTime(step.start_s)}\u2009–\u2009${formatTime(step.end_s)}`;
  const choice = make(
    "button",
    { type: "button", class: "step-choice", "data-step": step.step, click: () => select(step) },
    make("span", { class: "step-colour", "aria-hidden": "true" }),
    make("span", { class: "step-name" }, step.step),
    make("span", { class: "step-times" }, times),
  );
  const row = make(
    "li",
    {},
    choice,
    button("edit", "", () => edit(step), { class: "icon-button edit", "aria-label": `Change ${step.step}` }),
    button("delete", "", () => remove(step), { class: "icon-button delete", "aria-label": `Remove ${step.step}` }),
  );
  row.style.setProperty("--hue", `${hueOf(step.step)}`);
  return row;
}

customElements.define("annotate-steps", AnnotateSteps);
