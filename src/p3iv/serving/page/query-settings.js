/** Seed and number of plans, and the same query as commands. */

import { find, make } from "./dom.js";
import { copyButton } from "./plan-tools.js";
import { planSoon } from "./planning.js";
import { followRequestOf, requestOf } from "./query.js";
import { goalKindOf, store } from "./store.js";
import { View } from "./view.js";

/** @import {Moment, PlanRequest, State, Video} from "./types.js" */

export class QuerySettings extends View {
  static watches = /** @type {const} */ ([
    "info",
    "video",
    "start",
    "goal",
    "goalKind",
    "goalText",
    "procedure",
    "history",
    "horizon",
    "conditions",
    "why",
    "seed",
    "number",
    "mode",
  ]);

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
  const query = state.mode === "plan" ? requestOf(state) : followRequestOf(state);
  if (!query) return null;
  const route = state.mode === "plan" ? "plan" : "follow";
  const token = state.info?.needs_token ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const body = quote(JSON.stringify(query));
  return {
    name: "curl",
    text: `curl ${window.location.origin}/v1/${route} -H "Content-Type: application/json"${token} -d ${body}`,
  };
}

/** The command for a clip of the package; of other files the page does not know where they are. @param {State} state */
function planCommand(state) {
  const query = requestOf(state);
  const planner = state.info?.planner.name;
  const start = momentArgument(state.start, state.video, planner);
  const goal = goalArguments(state, planner);
  if (!query || !planner || !start || !goal || state.mode === "follow") return null;
  const options = optionArguments(query, state.seed);
  return { name: "p3iv", text: ["p3iv plan", quote(planner), "--start", start, ...goal, ...options].join(" ") };
}

/** @param {State} state @param {string | undefined} planner */
function goalArguments(state, planner) {
  const kind = goalKindOf(state);
  if (kind === "none") return [];
  if (kind === "words") return ["--goal-text", quote(state.goalText)];
  const goal = momentArgument(state.goal, state.video, planner);
  return goal && ["--goal", goal];
}

/** What is not as usual. @param {PlanRequest} query @param {number} seed */
function optionArguments({ procedure, history, horizon, conditions, why }, seed) {
  const steps = Object.entries(conditions ?? {}).flatMap(([kind, names]) =>
    [names].flat().flatMap((name) => [`--${kind}`, quote(name)]),
  );
  return [
    ...(procedure ? ["--procedure", quote(procedure)] : []),
    ...(history === false ? ["--history off"] : []),
    ...(horizon ? [`--horizon ${horizon}`] : []),
    ...steps,
    ...(why ? ["--why"] : []),
    ...(seed ? [`--seed ${seed}`] : []),
  ];
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
