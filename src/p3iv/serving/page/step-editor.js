/** The form that names a step: a name with completion, and its times. */

import { cancelEdit, now, putStep } from "./annotating.js";
import { button, make } from "./dom.js";
import { formatTime, parseTime } from "./format.js";
import { clampTime } from "./playback.js";
import { View } from "./view.js";

/** @import {Annotating} from "./types.js" */

const MAX_OPTIONS = 7;

export class StepEditor extends View {
  static watches = /** @type {const} */ (["annotating"]);

  #name = make("input", {
    id: "step-name",
    role: "combobox",
    autocomplete: "off",
    maxlength: 500,
    "aria-expanded": "false",
    "aria-controls": "step-options",
    "aria-autocomplete": "list",
    "aria-describedby": "editor-problem",
  });
  #options = make("ul", { id: "step-options", role: "listbox", "aria-label": "Known steps", hidden: true });
  #from = make("input", { id: "step-from", autocomplete: "off", inputmode: "decimal" });
  #to = make("input", { id: "step-to", autocomplete: "off", inputmode: "decimal" });
  #problem = make("p", { id: "editor-problem", class: "form-problem", role: "alert" });
  #title = make("h2", { id: "editor-title" });

  /** @type {Annotating["edited"]} */
  #edited = null;

  /** What can be chosen, and which of it is: -1 for none. @type {string[]} */
  #names = [];
  #active = -1;

  build() {
    const form = make(
      "form",
      { "aria-labelledby": "editor-title", novalidate: true, submit: (/** @type {Event} */ event) => this.#submit(event) },
      this.#title,
      make("div", { class: "field name" }, make("label", { for: "step-name" }, "Step"), this.#name, this.#options),
      make("div", { class: "field" }, make("label", { for: "step-from" }, "From"), this.#from),
      make("div", { class: "field" }, make("label", { for: "step-to" }, "To"), this.#to),
      make(
        "div",
        { class: "buttons" },
        make("button", { class: "button primary", id: "save-step" }, "Save step"),
        button(null, "Cancel", cancelEdit, { class: "button", id: "cancel-step" }),
      ),
      this.#problem,
    );
    this.#name.addEventListener("input", () => this.#suggest(true));
    this.#name.addEventListener("keydown", (event) => this.#onKey(event));
    this.#name.addEventListener("blur", () => this.#take());
    this.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented) cancelEdit();
    });
    this.append(form);
  }

  render() {
    const { edited } = now();
    this.hidden = edited === null;
    if (edited === this.#edited) return;
    const hadFocus = this.contains(document.activeElement);
    this.#edited = edited;
    this.#close();
    if (!edited) return hadFocus ? /** @type {HTMLElement} */ (document.activeElement)?.blur() : undefined;
    this.#title.textContent = edited.replaces ? "Change the step" : "Name the step";
    this.#name.value = edited.step;
    this.#from.value = formatTime(edited.start_s);
    this.#to.value = formatTime(edited.end_s);
    this.#fail("");
    this.#name.focus();
    this.#name.select();
    this.#suggest(false);
  }

  /** @param {Event} event */
  #submit(event) {
    event.preventDefault();
    const step = (this.#names[this.#active] ?? this.#name.value).trim();
    const [start, end] = [parseTime(this.#from.value), parseTime(this.#to.value)];
    if (!step) return this.#fail("Type the name of the step.");
    if (start === null || end === null) return this.#fail("Times look like 12.5 or 1:02.5.");
    if (end < start) return this.#fail("A step ends after it begins.");
    putStep({ step, start_s: clampTime(start), end_s: clampTime(end) }, this.#edited?.replaces);
  }

  /** @param {string} problem */
  #fail(problem) {
    this.#problem.textContent = problem;
    this.#name.toggleAttribute("aria-invalid", false);
    if (problem) this.#name.setAttribute("aria-invalid", "true");
  }

  /** Show the known names that fit; the first is chosen while one types. @param {boolean} isTyped */
  #suggest(isTyped) {
    const typed = this.#name.value.trim().toLowerCase();
    const fitting = fittingNames(now().knownSteps, typed).slice(0, MAX_OPTIONS);
    const isKnown = fitting.some((name) => name.toLowerCase() === typed);
    this.#names = typed && !isKnown ? [...fitting, this.#name.value.trim()] : fitting;
    this.#active = isTyped && typed && fitting.length ? 0 : -1;
    const rows = this.#names.map((name, index) => this.#option(name, index, index >= fitting.length));
    this.#options.replaceChildren(...rows);
    const isOpen = fitting.length > 0 && !(isKnown && fitting.length === 1 && !isTyped);
    this.#options.hidden = !isOpen;
    this.#name.setAttribute("aria-expanded", `${isOpen}`);
    this.#showActive();
  }

  /** @param {string} name @param {number} index @param {boolean} isNew */
  #option(name, index, isNew) {
    const option = make(
      "li",
      { role: "option", id: `step-option-${index}`, "data-new": isNew },
      isNew ? make("span", { class: "note" }, "New step ") : null,
      name,
    );
    option.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the field keeps the focus
      this.#name.value = name;
      this.#close();
    });
    return option;
  }

  #showActive() {
    [...this.#options.children].forEach((option, index) =>
      option.setAttribute("aria-selected", `${index === this.#active}`),
    );
    if (this.#active >= 0) this.#name.setAttribute("aria-activedescendant", `step-option-${this.#active}`);
    else this.#name.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && this.#names.length) {
      event.preventDefault();
      if (this.#options.hidden) this.#suggest(false);
      const number = this.#names.length;
      this.#active = this.#active < 0 && move < 0 ? number - 1 : (this.#active + move + number) % number;
      this.#showActive();
    } else if (event.key === "Escape" && !this.#options.hidden && this.#active >= 0) {
      event.preventDefault();
      this.#close();
    }
  }

  /** Leave the field with the chosen name in it. */
  #take() {
    if (this.#active >= 0) this.#name.value = this.#names[this.#active];
    this.#close();
  }

  /** Close the list; what is typed counts. */
  #close() {
    this.#names = [];
    this.#active = -1;
    this.#options.hidden = true;
    this.#name.setAttribute("aria-expanded", "false");
    this.#name.removeAttribute("aria-activedescendant");
  }
}

/** Names in which every typed word begins a word; those that begin as typed come first. @param {string[]} known @param {string} typed */
function fittingNames(known, typed) {
  const words = typed.split(/\s+/).filter(Boolean);
  const fits = (/** @type {string} */ name) => {
    const parts = name.toLowerCase().split(/\s+/);
    return words.every((word) => parts.some((part) => part.startsWith(word)));
  };
  const fitting = known.filter(fits);
  const first = fitting.filter((name) => name.toLowerCase().startsWith(typed));
  return [...first, ...fitting.filter((name) => !first.includes(name))];
}

customElements.define("step-editor", StepEditor);
