/**
 * The page of `p3iv serve`: choose a start and a goal, read the plans between them.
 *
 * How it is cut: `store.js` holds the state; `starting`, `library`, `playback`, `planning`, `mode` and `following`
 * change it and talk to the service (`api`, `events`, `uploading`); custom elements (`video-*`, `moment-card`,
 * `goal-choice`, `plan-*`, `follow-*`, `query-*`) show it. `types.js` describes the data, `query.js` makes the request
 * of it. `following` and `follow-*` are loaded when a video is first followed.
 *
 * Names that tests and style sheets may rely on:
 * - body[data-phase]: loading, empty, video, start, goal, planning, plans, following, error
 * - video-stage[data-shows]: loading, empty, upload, video, frames, nothing, problem
 * - plan-panel#plans[data-shows]: guide, waiting, plans, problem, following; [data-planning] while plans are asked for
 * - #follow, #stop-following, follow-panel[data-second][data-computed][data-whole], [data-late] if the video is ahead
 * - #choose-video, #choose-file, #file-input, #cancel-upload; #start-picture, #start-file (goal too)
 * - #videos-dialog, #video-search, [data-video=ID], [data-delete=ID]
 * - #play, #start-handle, #goal-handle (sliders), #start-time, #goal-time, #set-start, #set-goal, #whole-video
 * - [data-step=NAME] in the list of the plan, [data-plan=INDEX] in the rows (aria-pressed: chosen), #more-plans
 * - #history, [name=goal-kind], #goal-text, #understood, #procedure, [name=steps]
 * - .step-more in a step unfolds [data-kind]; .chip[data-condition] removes a condition, #remove-conditions all
 * - #why (details), #why-change, .reasons (table)
 * - #cancel-planning, [data-action=retry], [data-action=way-back]
 * - #copy-text, #copy-json, #save-svg, #settings, #seed-field, #number-field, [data-copy=curl], [data-copy=p3iv]
 * - #help-button, #help-dialog, #keys-on, #token-dialog, #token, #announcer (live region)
 *
 * @import {State} from "./types.js"
 */

import "./video-bar.js";
import "./video-list.js";
import "./video-stage.js";
import "./video-controls.js";
import "./video-timeline.js";
import "./moment-card.js";
import "./query-options.js";
import "./plan-panel.js";
import "./plan-summary.js";
import "./plan-steps.js";
import "./plan-rows.js";
import "./plan-why.js";
import "./plan-graph.js";
import "./plan-tools.js";
import "./query-settings.js";
import { find, make } from "./dom.js";
import { acceptDrops } from "./file-drop.js";
import { counted } from "./format.js";
import { acceptKeys } from "./keyboard.js";
import { listen, startUp } from "./starting.js";
import { goalKindOf, hasGoal, store } from "./store.js";

/** @param {State} state */
function phaseOf(state) {
  if (state.videoProblem || state.planProblem || state.following?.problem) return "error";
  if (state.mode === "follow") return "following";
  if (state.planning) return "planning";
  if (state.answer) return "plans";
  if (!state.info) return "loading";
  if (hasGoal(state) && goalKindOf(state) !== "none") return "goal";
  if (state.start) return "start";
  return state.video ? "video" : "empty";
}

function showPhase() {
  document.body.dataset.phase = phaseOf(store.state);
  document.body.classList.toggle("is-following", store.state.mode === "follow");
}

/** What the planner is, in the head and at the foot of the page. @param {State} state */
function showPlanner({ info }) {
  if (!info) return;
  document.body.classList.toggle("no-encoder", info.encoder === null);
  document.body.classList.toggle("no-pictures", info.encoder?.pictures !== true);
  document.body.classList.toggle("no-words", !info.evidence.includes("words"));
  document.body.classList.toggle("no-reasons", !info.reasons);
  document.body.classList.toggle("no-following", !info.can_follow);
  find(document, "#annotate-link").hidden = !info.annotates;
  const { planner, horizons, actions } = info;
  find(document, "#planner-name").textContent = planner.name;
  const several = `${horizons[0]} to ${counted(horizons[horizons.length - 1], "step")}`;
  const lengths = horizons.length > 1 ? `have ${several}` : `always have ${horizons[0]}`;
  const plans = `It knows ${counted(actions.length, "step")}, and its plans ${lengths}.`;
  const about = `Planner ${planner.name} (${planner.method}), trained on ${planner.data_label}.`;
  find(document, "#about").textContent = `${about} ${plans}`;
  find(document, "#known-steps ul").replaceChildren(...actions.map((name) => make("li", {}, name)));
  find(document, "#known-steps").hidden = false;
}

store.watch(["videoProblem", "planProblem", "planning", "answer", "info", "mode", "following"], showPhase);
store.watch(["video", "start", "goal", "goalKind"], showPhase);
store.watch(["info"], () => showPlanner(store.state));
for (const closing of document.querySelectorAll("[data-close]")) {
  closing.addEventListener("click", () => closing.closest("dialog")?.close());
}
find(document, ".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment of the address holds the query
  find(document, "#plans").focus();
});
acceptDrops();
acceptKeys();
listen();
void startUp();
