/**
 * The service, as functions: one for each route that the page uses.
 *
 * @import {Answer, FollowedMoment, FollowRequest, Info, PlanRequest, Progress, Video} from "./types.js"
 */

import { readEvents } from "./events.js";

/** An error of the service in its own words, or that the service does not answer. */
export class ServiceError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {string | null} [hint]
   */
  constructor(code, message, hint = null) {
    super(message);
    this.code = code;
    this.hint = hint;
  }

  /**
   * From the error form of the service; the page asks for the token where one is missing.
   *
   * @param {any} content
   * @param {number} status
   */
  static from(content, status) {
    const error = content?.error;
    if (typeof error?.message !== "string") return new ServiceError("internal", `The service answered with ${status}.`);
    if (error.code === "unauthorized") window.dispatchEvent(new Event("unauthorized"));
    return new ServiceError(error.code, error.message, error.hint ?? null);
  }

  static unreachable() {
    return new ServiceError("unreachable", "The service does not answer.", "Is p3iv serve still running?");
  }
}

/** @param {string} path @param {RequestInit} [options] */
export async function request(path, options = {}) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    throw isAbort(error) ? error : ServiceError.unreachable();
  }
  if (response.ok) return response;
  throw ServiceError.from(await response.json().catch(() => null), response.status);
}

/** Whether somebody cancelled. @param {unknown} error */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/** @param {unknown} content @param {Record<string, string>} [headers] */
export function posting(content, headers = {}) {
  return { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(content) };
}

/** @returns {Promise<Info>} */
export async function getInfo() {
  return (await request("/v1/info")).json();
}

/** @returns {Promise<Video[]>} */
export async function getVideos() {
  return (await (await request("/v1/videos")).json()).videos.map(stamp);
}

/** @param {string} id @returns {Promise<Video>} */
export async function getVideo(id) {
  return stamp(await (await request(videoPath(id))).json());
}

/** A video with the time at which its facts were asked for. @param {Video} video @returns {Video} */
export function stamp(video) {
  return { ...video, asked_at: Date.now() };
}

/** @param {string} id */
export async function deleteVideo(id) {
  await request(videoPath(id), { method: "DELETE" });
}

/** Exchange a token for a cookie. @param {string} token */
export async function openSession(token) {
  await request("/v1/session", posting({ token }));
}

/**
 * Ask for plans; progress is told while the service encodes and plans.
 *
 * @param {PlanRequest} query
 * @param {(progress: Progress) => void} onProgress
 * @param {AbortSignal} signal
 * @returns {Promise<Answer>}
 */
export async function requestPlans(query, onProgress, signal) {
  const response = await request("/v1/plan", { ...posting(query, { Accept: "text/event-stream" }), signal });
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return response.json();
  for await (const { name, data } of eventsOf(response)) {
    if (name === "result") return data;
    if (name === "progress") onProgress(data);
  }
  throw ServiceError.unreachable();
}

/**
 * Follow a video: what is done, under way and left, second by second.
 *
 * @param {FollowRequest} query
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<FollowedMoment>}
 */
export async function* requestMoments(query, signal) {
  const response = await request("/v1/follow", { ...posting(query), signal });
  for await (const { name, data } of eventsOf(response)) {
    if (name === "end") return;
    if (name === "moment") yield data;
  }
  throw ServiceError.unreachable();
}

/** The events of an answer; that of an error is raised. @param {Response} response */
export async function* eventsOf(response) {
  try {
    for await (const event of readEvents(response)) {
      if (event.name === "error") throw ServiceError.from(event.data, response.status);
      yield event;
    }
  } catch (error) {
    throw error instanceof TypeError ? ServiceError.unreachable() : error;
  }
}

/** @param {string} id */
function videoPath(id) {
  return `/v1/videos/${encodeURIComponent(id)}`;
}

/** The file of a video. @param {string} id */
export function fileAddress(id) {
  return `${videoPath(id)}/file`;
}

/** One frame of a video. @param {string} id @param {number} second @param {number} width */
export function frameAddress(id, second, width) {
  return `${videoPath(id)}/frame?t=${second}&w=${screenPixels(width, 1280)}`;
}

/** Frames side by side. @param {string} id @param {number} number @param {number} width of one frame */
export function stripAddress(id, number, width) {
  return `${videoPath(id)}/strip?n=${number}&w=${screenPixels(width, 320)}`;
}

/** @param {string} id @param {number} width */
export function pictureAddress(id, width) {
  return `/v1/pictures/${encodeURIComponent(id)}?w=${screenPixels(width, 1280)}`;
}

/** How a step looks. @param {number} index */
export function stepPictureAddress(index) {
  return `/v1/steps/${index}/picture`;
}

/** CSS pixels to those of the screen, within what the service sends. @param {number} width @param {number} most */
function screenPixels(width, most) {
  return Math.min(most, Math.max(16, Math.round(width * Math.min(window.devicePixelRatio, 2))));
}
