/**
 * The routes of the service that the annotator uses.
 *
 * @import {Annotation, AnnotatedVideo, Job, Suggestion} from "./types.js"
 */

import { eventsOf, posting, request, ServiceError } from "./api.js";

/** That somebody else has changed the steps. */
export class Conflict extends Error {
  /** @param {Annotation} current @param {string} tag */
  constructor(current, tag) {
    super("conflict");
    this.current = current;
    this.tag = tag;
  }
}

/** @param {string} video @param {string} annotator */
function stepsPath(video, annotator) {
  return `/v1/steps/${encodeURIComponent(video)}?annotator=${encodeURIComponent(annotator)}`;
}

/**
 * All videos to annotate, and the names in use.
 *
 * @param {string} annotator
 * @returns {Promise<{annotators: string[], videos: AnnotatedVideo[], steps: string[], tasks: string[]}>}
 */
export async function getAnnotations(annotator) {
  return (await request(`/v1/steps?annotator=${encodeURIComponent(annotator)}`)).json();
}

/**
 * @param {string} video
 * @param {string} annotator
 * @returns {Promise<{annotation: Annotation, tag: string}>}
 */
export async function getSteps(video, annotator) {
  return contentOf(await request(stepsPath(video, annotator)));
}

/** @param {Response} response */
async function contentOf(response) {
  const { task, steps } = await response.json();
  return { annotation: { task, steps }, tag: response.headers.get("ETag") ?? "" };
}

/**
 * Replace the steps of a version; raises Conflict where there is another one by now.
 *
 * @param {string} video
 * @param {string} annotator
 * @param {Annotation} annotation
 * @param {string} tag
 */
export async function putSteps(video, annotator, annotation, tag) {
  const options = { ...posting(annotation, { "If-Match": tag }), method: "PUT", keepalive: true };
  /** @type {Response} */
  let response;
  try {
    response = await fetch(stepsPath(video, annotator), { credentials: "same-origin", ...options });
  } catch {
    throw ServiceError.unreachable();
  }
  if (response.ok) return contentOf(response);
  const content = await response.json().catch(() => null);
  if (response.status !== 409 || !content?.current) throw ServiceError.from(content, response.status);
  const { task, steps } = content.current;
  throw new Conflict({ task, steps }, response.headers.get("ETag") ?? "");
}

/**
 * @param {string} video
 * @param {string} annotator
 * @param {(share: number) => void} onProgress
 * @returns {Promise<{suggestions: Suggestion[], source: string, learned_from: number}>}
 */
export async function getSuggestions(video, annotator, onProgress) {
  const headers = { Accept: "text/event-stream" };
  const path = `/v1/suggestions/${encodeURIComponent(video)}?annotator=${encodeURIComponent(annotator)}`;
  const response = await request(path, { headers });
  for await (const { name, data } of eventsOf(response)) {
    if (name === "result") return data;
    if (name === "progress") onProgress(data.total ? data.done / data.total : 0);
  }
  throw ServiceError.unreachable();
}

/** @param {"extract" | "train"} kind @returns {Promise<Job>} */
export async function startJob(kind) {
  return (await request(`/v1/${kind}`, posting({}))).json();
}

/** @returns {Promise<Job[]>} */
export async function getJobs() {
  return (await (await request("/v1/jobs")).json()).jobs;
}

/** @param {string} id @returns {Promise<Job>} */
export async function cancelJob(id) {
  return (await request(`/v1/jobs/${encodeURIComponent(id)}`, { method: "DELETE" })).json();
}

/**
 * @typedef {{seconds: number, same_share: number | null, kappa: number | null, boundary_s: number | null}} Figures
 * @typedef {{annotators: string[], videos: (Figures & {id: string, name: string})[], overall: Figures}} Agreement
 */

/** @param {string} first @param {string} second @returns {Promise<Agreement>} */
export async function getAgreement(first, second) {
  const names = `first=${encodeURIComponent(first)}&second=${encodeURIComponent(second)}`;
  return (await request(`/v1/agreement?${names}`)).json();
}
