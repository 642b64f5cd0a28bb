/** Start or goal: its picture, its time as a field, and the buttons to set it. */

import { frameAddress, pictureAddress } from "./api.js";
import { button, icon, make, whenAtRest } from "./dom.js";
import { formatTime, parseTime } from "./format.js";
import { GoalChoice } from "./goal-choice.js";
import { ACCEPTED_PICTURES, addFiles } from "./library.js";
import { showPicture } from "./pictures.js";
import { seek } from "./playback.js";
import { moveMoment, setHere, setMoment, setQuery } from "./planning.js";
import { goalKindOf, lengthOf, secondOf, store, understands } from "./store.js";
import { View } from "./view.js";

/** @import {End, Moment, State} from "./types.js" */

const PICTURE_REST_MS = 120;
const PICTURE_WIDTH = 240;
const TITLES = { start: "Start", goal: "Goal" };
const KEYS = { start: "S", goal: "G" };

export class MomentCard extends View {
  static watches = /** @type {const} */ (["info", "video", "start", "goal", "goalKind", "history"]);

  #image = make("img", { alt: "", hidden: true });
  #look = make(
    "button",
    { type: "button", class: "card-picture", click: () => this.#lookAt() },
    this.#image,
    icon("picture"),
  );
  #time = make("input", {
    class: "time",
    inputmode: "text",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "not set",
  });
  #note = make("p", { class: "card-note", "aria-live": "polite" });
  #buttons = make("div", { class: "buttons" });
  #history = make("input", { type: "checkbox", id: "history" });
  #file = make("input", { type: "file", accept: ACCEPTED_PICTURES, hidden: true, tabindex: -1 });

  #showImage = whenAtRest(
    PICTURE_REST_MS,
    (/** @type {string | null} */ address) => void showPicture(this.#image, address),
  );

  /** @returns {End} */
  get end() {
    return this.getAttribute("which") === "goal" ? "goal" : "start";
  }

  build() {
    const { end } = this;
    this.#time.id = `${end}-time`;
    this.#time.setAttribute("aria-describedby", `${end}-note`);
    this.#note.id = `${end}-note`;
    this.#file.id = `${end}-file`;
    this.#time.addEventListener("change", () => this.#readTime());
    this.#time.addEventListener("keydown", (event) => event.key === "Escape" && this.render(store.state));
    this.#file.addEventListener("change", () => {
      void addFiles([...(this.#file.files ?? [])], end);
      this.#file.value = "";
    });
    const title = make("label", { for: this.#time.id, class: "card-title" }, TITLES[end]);
    this.#buttons.append(
      setButton(end),
      button("picture", "Use a picture", () => this.#file.click(), {
        class: "button small choose-picture needs-pictures",
        title: `Use a picture as the ${end}`,
        id: `${end}-picture`,
      }),
      button(null, "Remove", () => setMoment(end, null), {
        class: "button small remove-picture",
        title: `Remove the picture of the ${end}`,
      }),
    );
    this.#history.addEventListener("change", () => setQuery({ history: this.#history.checked }));
    const before = make("label", { class: "switch" }, this.#history, "The video before it counts");
    this.append(
      end === "start" ? before : new GoalChoice(),
      this.#look,
      make("div", { class: "card-text" }, title, this.#time, this.#note, this.#buttons),
      this.#file,
    );
  }

  /** @param {State} state */
  render(state) {
    const moment = state[this.end];
    const isPicture = moment !== null && "picture" in moment;
    const second = secondOf(moment);
    this.classList.toggle("is-set", moment !== null);
    this.classList.toggle("is-picture", isPicture);
    this.classList.toggle("has-video", state.video !== null);
    this.dataset.kind = this.end === "goal" ? goalKindOf(state) : "moment";
    this.#renderHistory(state);
    this.#time.readOnly = isPicture;
    this.#time.disabled = !isPicture && state.video === null;
    this.#time.value = isPicture ? moment.name : second === null ? "" : formatTime(second);
    this.#time.removeAttribute("aria-invalid");
    this.#note.textContent = "";
    this.#renderPicture(state, moment);
  }

  /** Pictures have nothing before them. @param {State} state */
  #renderHistory(state) {
    const label = this.#history.closest("label");
    if (label) label.hidden = !understands(state, "history");
    this.#history.checked = state.history;
    this.#history.disabled = state.start !== null && "picture" in state.start;
  }

  /** @param {State} state @param {Moment | null} moment */
  #renderPicture({ video }, moment) {
    const address = addressOf(video, moment);
    const words = moment === null ? "not set" : "t" in moment ? `at ${formatTime(moment.t)}` : "is a picture";
    this.#look.setAttribute(
      "aria-label",
      `${TITLES[this.end]} ${words}${moment && "t" in moment ? "; show it in the video" : ""}`,
    );
    this.#look.disabled = secondOf(moment) === null;
    if (address === null) {
      this.#showImage.cancel();
      void showPicture(this.#image, null);
    } else this.#showImage(address);
  }

  #lookAt() {
    const second = secondOf(store.state[this.end]);
    if (second !== null) seek(second);
  }

  #readTime() {
    const second = parseTime(this.#time.value);
    const length = lengthOf(store.state);
    if (this.#time.value.trim() === "") setMoment(this.end, null);
    else if (second === null) this.#refuse("Type seconds, such as 12.5, or minutes: 1:02.5");
    else if (second > length) this.#refuse(`The video ends at ${formatTime(length)}`);
    else moveMoment(this.end, second);
  }

  /** @param {string} reason */
  #refuse(reason) {
    this.#time.setAttribute("aria-invalid", "true");
    this.#note.textContent = reason;
  }
}

/** @param {End} end */
function setButton(end) {
  const attributes = { class: "button small set-here", "aria-keyshortcuts": KEYS[end], id: `set-${end}` };
  const element = button(null, "Set here", () => setHere(end), attributes);
  element.append(make("kbd", { "aria-hidden": "true" }, KEYS[end]));
  return element;
}

/** @param {State["video"]} video @param {Moment | null} moment */
function addressOf(video, moment) {
  if (moment === null) return null;
  if ("picture" in moment) return pictureAddress(moment.picture, PICTURE_WIDTH);
  return video?.has_frames ? frameAddress(video.id, moment.t, PICTURE_WIDTH) : null;
}

customElements.define("moment-card", MomentCard);
