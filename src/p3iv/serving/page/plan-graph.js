/** The graph of all plans: the drawing of the service, with the colours of the page. */

import { make } from "./dom.js";
import { View } from "./view.js";

/** @import {Answer, State} from "./types.js" */

const UNWANTED = "style, script, foreignObject, a, image, use, animate, set";

export class PlanGraph extends View {
  static watches = /** @type {const} */ (["answer", "chosen", "planning", "mode"]);

  #box = make("div", { class: "graph-box", tabindex: 0, role: "region", "aria-label": "Graph of the plans" });

  /** @type {Answer | null} */
  #answer = null;

  build() {
    const words = "The most probable plans, merged. The wider a band, the more probable.";
    this.append(make("h2", {}, "The plans in one picture"), make("p", { class: "note" }, words), this.#box);
  }

  /** @param {State} state */
  render({ answer, chosen, planning, mode }) {
    this.hidden = !answer?.graph || mode === "follow";
    this.toggleAttribute("data-planning", planning !== null);
    if (!answer?.graph || this.hidden) return;
    if (answer !== this.#answer) {
      this.#answer = answer;
      const drawing = parseDrawing(answer.graph.svg);
      this.hidden = drawing === null;
      this.#box.replaceChildren(...(drawing ? [drawing] : []));
    }
    this.#mark(answer.plans[chosen].steps, chosen);
  }

  /**
   * Mark the boxes of the chosen plan, which are known by their titles.
   *
   * @param {string[]} steps
   * @param {number} chosen
   */
  #mark(steps, chosen) {
    const starts = steps.map((step, index) => `${index + 1}. ${step}: `);
    for (const node of this.#box.querySelectorAll("g")) {
      const title = node.querySelector("title")?.textContent ?? "";
      node.classList.toggle("chosen", chosen > 0 && starts.some((start) => title.startsWith(start)));
    }
  }
}

/** The drawing in a text; null if it is not one. Only what a drawing needs is taken over. @param {string} text */
function parseDrawing(text) {
  const bare = text.replace(/<style[^]*?<\/style>/g, ""); // which the page's policy would refuse, with a warning
  const root = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
  if (root.localName !== "svg" || root.namespaceURI !== "http://www.w3.org/2000/svg") return null;
  for (const element of root.querySelectorAll(UNWANTED)) element.remove();
  for (const element of [root, ...root.querySelectorAll("*")]) {
    for (const { name } of [...element.attributes]) {
      if (/^on|href$|^style$/i.test(name)) element.removeAttribute(name);
    }
  }
  nameEnds(root);
  const drawing = document.importNode(root, true);
  if (drawing instanceof SVGElement) drawing.style.setProperty("--natural", `${Number(root.getAttribute("width"))}px`);
  return drawing;
}

/** Give start and goal their colours. @param {Element} root */
function nameEnds(root) {
  for (const label of root.querySelectorAll(".end-label")) {
    const end = label.textContent === "start" ? "of-start" : "of-goal";
    label.classList.add(end);
    label.previousElementSibling?.classList.add(end);
  }
}

customElements.define("plan-graph", PlanGraph);
