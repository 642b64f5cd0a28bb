/** Which video is annotated, and by whom. */

import { changeAnnotator, openNext, openVideo } from "./annotate-saving.js";
import { now } from "./annotating.js";
import { button, make } from "./dom.js";
import { counted } from "./format.js";
import { View } from "./view.js";

/** @import {AnnotatedVideo, State} from "./types.js" */

const NAME = /^[a-z0-9][a-z0-9_-]{0,31}$/;

export class AnnotateBar extends View {
  static watches = /** @type {const} */ (["annotating", "video"]);

  #videos = make("select", { id: "video-choice", "aria-label": "Video" });
  #back = button("frame-back", "", () => openNext(-1), { class: "icon-button", "aria-label": "Previous video", id: "previous" });
  #on = button("frame-on", "", () => openNext(1), { class: "icon-button", "aria-label": "Next video", id: "next" });
  #done = make("p", { class: "note", id: "videos-done" });
  #annotator = make("input", { id: "annotator", list: "annotators", autocomplete: "off", maxlength: 32 });
  #annotators = make("datalist", { id: "annotators" });
  #shown = "";

  build() {
    this.#videos.addEventListener("change", () => void openVideo(this.#videos.value));
    this.#annotator.addEventListener("change", () => this.#rename());
    this.#annotator.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Escape") this.#annotator.blur();
    });
    const label = make("label", { for: "annotator" }, "Annotator");
    const name = make("div", { class: "annotator" }, label, this.#annotator, this.#annotators);
    this.append(make("div", { class: "video-nav" }, this.#back, this.#videos, this.#on), this.#done, name);
  }

  #rename() {
    const name = this.#annotator.value.trim().toLowerCase();
    if (NAME.test(name)) return void changeAnnotator(name);
    this.#annotator.value = now().annotator;
  }

  /** @param {State} state */
  render({ video }) {
    const { videos, annotators, annotator } = now();
    const text = JSON.stringify(videos);
    if (text !== this.#shown) {
      this.#shown = text;
      this.#videos.replaceChildren(...videos.map((each) => make("option", { value: each.id }, labelOf(each))));
    }
    if (video) this.#videos.value = video.id;
    const at = videos.findIndex(({ id }) => id === video?.id);
    this.#back.toggleAttribute("disabled", at <= 0);
    this.#on.toggleAttribute("disabled", at < 0 || at === videos.length - 1);
    const done = videos.filter(({ num_steps }) => num_steps > 0).length;
    this.#done.textContent = `${done} of ${counted(videos.length, "video")} with steps`;
    this.#annotators.replaceChildren(...annotators.map((name) => make("option", { value: name })));
    if (document.activeElement !== this.#annotator) this.#annotator.value = annotator;
  }
}

/** @param {AnnotatedVideo} video */
function labelOf({ name, num_steps }) {
  return num_steps ? `${name} (${counted(num_steps, "step")})` : name;
}

customElements.define("annotate-bar", AnnotateBar);
