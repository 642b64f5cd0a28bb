/** How far two annotators agree. */

import { getAgreement } from "./annotate-api.js";
import { now } from "./annotating.js";
import { find, make } from "./dom.js";
import { formatLength, roundPercent } from "./format.js";
import { problemOf } from "./problems.js";
import { View } from "./view.js";

/** @import {Figures} from "./annotate-api.js" */

export class AnnotateAgreement extends View {
  static watches = /** @type {const} */ (["annotating"]);

  #others = make("select", { id: "other-annotator" });
  #figures = make("div", { id: "agreement-figures", "aria-live": "polite" });
  #details = make("details", { id: "agreement" });
  #shown = "";

  build() {
    const label = make("label", { for: "other-annotator" }, "Compare with");
    const field = make("div", { class: "field" }, label, this.#others);
    this.#details.append(make("summary", {}, "Agreement of two annotators"), field, this.#figures);
    this.#details.addEventListener("toggle", () => void this.#load());
    this.#others.addEventListener("change", () => void this.#load());
    this.append(this.#details);
  }

  render() {
    const { annotators, annotator, saving } = now();
    const others = annotators.filter((name) => name !== annotator);
    this.hidden = others.length === 0;
    const text = JSON.stringify(others);
    if (text !== this.#shown) {
      this.#shown = text;
      this.#others.replaceChildren(...others.map((name) => make("option", {}, name)));
    }
    if (saving === "saved" && this.#details.open) void this.#load();
  }

  #asked = "";

  async #load() {
    const { annotator, annotation } = now();
    const asked = JSON.stringify([annotator, this.#others.value, annotation]);
    if (!this.#details.open || !this.#others.value || asked === this.#asked) return;
    this.#asked = asked;
    try {
      const { videos, overall } = await getAgreement(annotator, this.#others.value);
      if (asked !== this.#asked) return;
      const rows = videos.map((video) => rowOf(video.name, video));
      const table = make("table", {}, headOf(), make("tbody", {}, ...rows), make("tfoot", {}, rowOf("All", overall)));
      const nothing = make("p", { class: "note" }, "There is no video yet that both have annotated.");
      const box = make("div", { class: "table-box", role: "region", tabindex: 0, "aria-label": "Agreement" }, table);
      this.#figures.replaceChildren(videos.length ? box : nothing);
    } catch (error) {
      this.#figures.replaceChildren(make("p", { class: "form-problem" }, problemOf(error).message));
    }
    find(this, "summary").dataset.loaded = "true";
  }
}

function headOf() {
  const names = ["Video", "Length", "Same step", "Kappa", "Boundaries apart"];
  return make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name))));
}

/** @param {string} name @param {Figures} figures */
function rowOf(name, { seconds, same_share, kappa, boundary_s }) {
  const cells = [
    formatLength(seconds),
    same_share === null ? "–" : roundPercent(same_share),
    kappa === null ? "–" : kappa.toFixed(2),
    boundary_s === null ? "–" : `${boundary_s.toFixed(1)}\u00a0s`,
  ];
  return make("tr", {}, make("th", { scope: "row" }, name), ...cells.map((cell) => make("td", {}, cell)));
}

customElements.define("annotate-agreement", AnnotateAgreement);
