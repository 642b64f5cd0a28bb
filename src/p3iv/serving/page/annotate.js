/**
 * The page that annotates: mark the steps of videos, and train a planner on them.
 *
 * `annotating` holds what an annotator can do, `annotate-saving` loads and saves, `annotate-api` talks to the service;
 * `annotate-*` and `step-editor` are custom elements that show it. The rest is shared with the page that plans.
 *
 * Names that tests and style sheets may rely on:
 * - body[data-phase]: loading, annotating, error; annotate-steps[data-saving]: loading, saved, saving, retrying, refused,
 *   conflict
 * - #video-choice, #previous, #next, #annotator, #task, #step-list, [data-step=NAME], #undo, #redo
 * - #mark-in, #mark-out, step-editor, #step-name, #step-options, #step-from, #step-to, #save-step, #cancel-step
 * - #conflict, #keep-mine, #take-theirs; #suggest, #accept, #skip, annotate-suggestions[data-shows]
 * - #train, #cancel-job, #plan-link, annotate-training[data-shows]; #agreement, #other-annotator
 */

import "./annotate-agreement.js";
import "./annotate-bar.js";
import "./annotate-stage.js";
import "./annotate-steps.js";
import "./annotate-suggestions.js";
import "./annotate-timeline.js";
import "./annotate-training.js";
import "./step-editor.js";
import "./video-controls.js";
import { acceptKeys } from "./annotate-keys.js";
import { openVideo, refresh } from "./annotate-saving.js";
import { markIn, markOut, now, set } from "./annotating.js";
import { getInfo, openSession, ServiceError } from "./api.js";
import { find } from "./dom.js";
import { problemOf } from "./problems.js";
import { store } from "./store.js";

const STARTING_MS = 1000;
const NAME = /^[a-z0-9][a-z0-9_-]{0,31}$/;

const tokenDialog = /** @type {HTMLDialogElement} */ (find(document, "#token-dialog"));
const tokenField = /** @type {HTMLInputElement} */ (find(document, "#token"));

/** Open the page as its address says: #video=ID&annotator=NAME. */
async function startUp() {
  const asked = new URLSearchParams(window.location.hash.slice(1));
  const [token, annotator] = [asked.get("token"), asked.get("annotator") ?? ""];
  try {
    if (token) await openSession(token);
    const info = await getInfo();
    store.set({ info, videoProblem: null });
    set({ annotator: NAME.test(annotator) ? annotator : "main" });
    await refresh();
    const { videos } = now();
    const first = videos.find(({ id }) => id === asked.get("video")) ?? videos.find(({ num_steps }) => !num_steps);
    await openVideo((first ?? videos[0]).id);
  } catch (error) {
    const code = error instanceof ServiceError ? error.code : "";
    if (code === "not_ready") window.setTimeout(() => void startUp(), STARTING_MS);
    else if (code !== "unauthorized") store.set({ videoProblem: problemOf(error, () => void startUp()) });
  }
}

/** @param {SubmitEvent} event */
async function useToken(event) {
  event.preventDefault();
  const problem = find(tokenDialog, "#token-problem");
  try {
    await openSession(tokenField.value.trim());
    tokenDialog.close();
    await startUp();
  } catch (error) {
    problem.textContent = problemOf(error).message;
    problem.hidden = false;
  }
}

function showPhase() {
  const { video, videoProblem, info } = store.state;
  document.body.dataset.phase = videoProblem ? "error" : video ? "annotating" : "loading";
  find(document, "#plan-page").hidden = !info?.planner;
}

/** The video and the annotator are in the address, so that a page can be opened again. */
function writeAddress() {
  const { video } = store.state;
  if (!video) return;
  const fragment = `#video=${video.id}${now().annotator === "main" ? "" : `&annotator=${now().annotator}`}`;
  if (window.location.hash !== fragment) window.history.replaceState(null, "", fragment);
}

store.watch(["video", "videoProblem", "info"], showPhase);
store.watch(["video", "annotating"], writeAddress);
find(document, "#mark-in").addEventListener("click", markIn);
find(document, "#mark-out").addEventListener("click", markOut);
find(tokenDialog, "form").addEventListener("submit", useToken);
window.addEventListener("unauthorized", () => tokenDialog.open || tokenDialog.showModal());
for (const closing of document.querySelectorAll("[data-close]")) {
  closing.addEventListener("click", () => closing.closest("dialog")?.close());
}
find(document, ".skip").addEventListener("click", (event) => {
  event.preventDefault();
  find(document, "annotate-steps").focus();
});
acceptKeys();
void startUp();
