/**
 * Uploads as the raw body of a PUT. XMLHttpRequest, since fetch does not tell how much has been sent.
 *
 * @import {Video} from "./types.js"
 */

import { ServiceError, stamp } from "./api.js";

/**
 * @typedef {object} Watching
 * @property {(share: number) => void} [onProgress]  from 0 to 1
 * @property {AbortSignal} [signal]
 */

/** @param {File} file @param {Watching} watching @returns {Promise<Video>} */
export async function uploadVideo(file, watching) {
  return stamp(await put(`/v1/videos?name=${encodeURIComponent(file.name)}`, file, watching));
}

/** @param {File} file @returns {Promise<{id: string, width: number, height: number, expires_s: number}>} */
export function uploadPicture(file) {
  return put("/v1/pictures", file, {});
}

/**
 * @param {string} path
 * @param {File} file
 * @param {Watching} watching
 * @returns {Promise<any>}
 */
function put(path, file, { onProgress = () => {}, signal }) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("PUT", path);
    sending.responseType = "json";
    sending.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    sending.upload.addEventListener("progress", (event) => onProgress(event.total ? event.loaded / event.total : 0));
    sending.addEventListener("error", () => reject(ServiceError.unreachable()));
    sending.addEventListener("abort", () => reject(new DOMException("cancelled", "AbortError")));
    sending.addEventListener("load", () => {
      if (sending.status < 300) resolve(sending.response);
      else reject(ServiceError.from(sending.response, sending.status));
    });
    signal?.addEventListener("abort", () => sending.abort());
    sending.send(file);
  });
}
