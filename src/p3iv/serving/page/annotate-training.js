/** From steps to a planner: features, training, and then a link to plan with it. */

import { cancelJob, getJobs, startJob } from "./annotate-api.js";
import { now, set } from "./annotating.js";
import { ServiceError } from "./api.js";
import { announce, button, make } from "./dom.js";
import { problemOf } from "./problems.js";
import { store } from "./store.js";
import { View } from "./view.js";

/** @import {Job, State} from "./types.js" */

const ASK_MS = 700;
const TITLES = { extract: "Features", train: "Training" };

let asking = 0;

/** Ask how far the newest job is, as long as it runs. */
export async function watchJobs() {
  window.clearTimeout(asking);
  try {
    const jobs = await getJobs();
    const job = jobs[jobs.length - 1] ?? null;
    const before = now().job;
    set({ job });
    if (job && before?.status === "running" && job.status !== "running") ended(job);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
  }
  if (now().job?.status === "running") asking = window.setTimeout(() => void watchJobs(), ASK_MS);
}

/** @param {Job} job */
function ended(job) {
  announce(`${TITLES[job.kind]}: ${job.status}. ${job.message ?? ""}`);
  if (job.kind === "extract" && job.status === "done") void start("train");
}

/** @param {"extract" | "train"} kind */
async function start(kind) {
  try {
    set({ job: await startJob(kind) });
    void watchJobs();
  } catch (error) {
    const { message, hint } = problemOf(error);
    const problem = [message, hint].filter(Boolean).join(" ");
    set({ job: { id: "", kind, status: "failed", progress: null, message: problem, planner: null } });
  }
}

async function cancel() {
  const { job } = now();
  if (job) set({ job: await cancelJob(job.id) });
}

export class AnnotateTraining extends View {
  static watches = /** @type {const} */ (["annotating", "info"]);

  #text = make("p", { id: "job-text" });
  #bar = make("progress", { max: 1, value: 0, "aria-label": "Progress", hidden: true });
  #start = button(null, "Train a planner", () => void start("extract"), { class: "button", id: "train" });
  #cancel = button(null, "Cancel", () => void cancel(), { class: "button", id: "cancel-job" });
  #plan = make("a", { class: "button primary", id: "plan-link", href: "/", hidden: true }, "Plan with it");

  build() {
    this.append(this.#text, this.#bar, make("div", { class: "buttons" }, this.#start, this.#cancel, this.#plan));
  }

  /** @param {State} _state */
  render(_state) {
    const { job, videos } = now();
    const isRunning = job?.status === "running";
    const hasSteps = videos.some(({ num_steps, task }) => num_steps && task);
    this.dataset.shows = job ? `${job.kind} ${job.status}` : "nothing";
    this.#text.textContent = job ? jobText(job) : hasSteps ? "" : "Mark the steps of a few videos first.";
    this.#text.hidden = this.#text.textContent === "";
    this.#bar.hidden = !isRunning;
    const { done = 0, total = 0 } = job?.progress ?? {};
    if (total) this.#bar.setAttribute("value", `${done / total}`);
    else this.#bar.removeAttribute("value");
    this.#start.hidden = isRunning;
    this.#start.toggleAttribute("disabled", !hasSteps);
    this.#cancel.hidden = !isRunning;
    this.#plan.hidden = job?.status !== "done" || job.planner === null;
  }
}

/** @param {Job} job */
function jobText({ kind, status, progress, message, planner }) {
  if (status === "running") return progress ? `${progress.what}… ${progress.about}` : `${TITLES[kind]}: starting…`;
  if (status === "done" && planner) return `${planner} is ready. ${message ?? ""}`;
  return `${TITLES[kind]}: ${message ?? status}`;
}

customElements.define("annotate-training", AnnotateTraining);
store.watch(["video"], () => void (now().job === null && watchJobs()));
