/** Seed and number of plans, and the same query as commands. */

import { find, make } from "./dom.js";
import { copyButton } from "./plan-tools.js";
import { planSoon, requestOf } from "./planning.js";
import { store } from "./store.js";
import { View } from "./view.js";

/** @import {Moment, State, Video} from "./types.js" */

export class QuerySettings extends View {
  static watches = /** @type {const} */ (["info", "video", "start", "goal", "seed", "number"]);

  #seed = numberField("seed", 0, Number.MAX_SAFE_INTEGER);
  #number = numberField("number", 1, 1000);
  #commands = make("div", { class: "commands" });

  build() {
    const fields = make(
      "div",
      { class: "fields" },
      labelled("Seed", "for planners that draw samples", this.#seed),
      labelled("Plans", "how many to list", this.#number),
    );
    const details = make(
      "details",
      { id: "settings" },
      make("summary", {}, "Settings and commands"),
      fields,
      this.#commands,
    );
    this.append(details);
    this.#seed.addEventListener("change", () => this.#change());
    this.#number.addEventListener("change", () => this.#change());
  }

  #change() {
    const seed = wholeOf(this.#seed, store.state.seed);
    const number = wholeOf(this.#number, store.state.number);
    store.set({ seed, number });
    this.render(store.state);
    planSoon();
  }

  /** @param {State} state */
  render(state) {
    this.#seed.value = `${state.seed}`;
    this.#number.value = `${state.number}`;
    this.#number.max = `${state.info?.limits.plans ?? 1000}`;
    const commands = [curlCommand(state), planCommand(state)].filter((command) => command !== null);
    this.#commands.replaceChildren(...commands.map(commandBox));
    this.#commands.hidden = commands.length === 0;
  }
}

/** @param {string} name @param {number} min @param {number} max */
function numberField(name, min, max) {
  return make("input", { type: "number", id: `${name}-field`, min, max, step: 1, inputmode: "numeric" });
}

/** @param {string} title @param {string} hint @param {HTMLInputElement} field */
function labelled(title, hint, field) {
  return make("label", {}, make("span", {}, title), field, make("span", { class: "note" }, hint));
}

/** A whole number within the limits of a field. @param {HTMLInputElement} field @param {number} otherwise */
function wholeOf(field, otherwise) {
  const value = Math.round(field.valueAsNumber);
  return Number.isFinite(value) ? Math.min(Math.max(value, Number(field.min)), Number(field.max)) : otherwise;
}

/** @param {{name: string, text: string}} command */
function commandBox({ name, text }) {
  const code = make("code", {}, text);
  const copy = copyButton(`Copy ${name}`, () => find(box, "code").textContent ?? "", { "data-copy": name });
  const box = make(
    "div",
    { class: "command" },
    make("pre", { tabindex: 0, "aria-label": `${name} command` }, code),
    copy,
  );
  return box;
}

/** @param {State} state */
function curlCommand(state) {
  const query = requestOf(state);
  if (!query) return null;
  const token = state.info?.needs_token ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const body = quote(JSON.stringify(query));
  return {
    name: "curl",
    text: `curl ${window.location.origin}/v1/plan -H "Content-Type: application/json"${token} -d ${body}`,
  };
}

/** The command for a clip of the package; of other files the page does not know where they are. @param {State} state */
function planCommand({ info, video, start, goal, seed }) {
  const [first, second] = [
    momentArgument(start, video, info?.planner.name),
    momentArgument(goal, video, info?.planner.name),
  ];
  if (!info || !first || !second) return null;
  return {
    name: "p3iv",
    text: `p3iv plan ${quote(info.planner.name)} --start ${first} --goal ${second}${seed ? ` --seed ${seed}` : ""}`,
  };
}

/** @param {Moment | null} moment @param {Video | null} video @param {string | undefined} planner */
function momentArgument(moment, video, planner) {
  if (moment === null || "picture" in moment || video?.source !== "clip") return null;
  const file = video.name.replace(/ \(.*/, ""); // the name of a clip ends with its task
  return quote(`${planner}/${file}@${moment.t}`);
}

/** For a shell; quotes only where they are needed. @param {string} text */
function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

customElements.define("query-settings", QuerySettings);
