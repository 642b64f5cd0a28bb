/** The name of the chosen video, and the buttons to choose another one or a file. */

import { button, find, icon, make } from "./dom.js";
import { formatLength, remaining } from "./format.js";
import { ACCEPTED_PICTURES, ACCEPTED_VIDEOS, addFiles, refreshVideos } from "./library.js";
import { store } from "./store.js";
import { View } from "./view.js";

/** @import {State, Video} from "./types.js" */

const MINUTE_MS = 60_000;
const SOURCES = { clip: "example", dataset: "dataset", upload: "your upload" };

export class VideoBar extends View {
  static watches = /** @type {const} */ (["video", "videos", "info"]);

  #name = make("span", { class: "video-name" });
  #facts = make("span", { class: "video-facts" });

  build() {
    const text = make("span", { class: "video-title" }, this.#name, this.#facts);
    const choose = make(
      "button",
      { type: "button", id: "choose-video", class: "video-choice", "aria-haspopup": "dialog", click: openVideos },
      text,
      icon("down"),
    );
    this.append(choose, fileButton("Use your video", { id: "choose-file" }));
    window.setInterval(() => this.render(store.state), MINUTE_MS);
  }

  /** @param {State} state */
  render({ video, videos, info }) {
    this.#name.textContent = video ? video.name : "Choose a video";
    this.#facts.textContent = video ? factsOf(video, [SOURCES[video.source]]) : `${videos.length} on this server`;
    find(this, "#choose-video").hidden = videos.length === 0 && video === null;
    find(this, "#choose-file").hidden = info !== null && info.encoder === null;
  }
}

/** Length and expiry of a video. @param {Video} video @param {string[]} facts to begin with */
export function factsOf(video, facts = []) {
  const length = video.length_s === null ? [] : [formatLength(video.length_s)];
  const left = video.expires_s === null ? null : video.expires_s - (Date.now() - (video.asked_at ?? 0)) / 1000;
  const expiry = left === null ? [] : [left > 0 ? `deleted in ${remaining(left)}` : "deleted by now"];
  return [...facts, ...length, ...expiry].join(" · ");
}

/** Open the list of videos. */
export function openVideos() {
  const dialog = /** @type {HTMLDialogElement} */ (find(document, "#videos-dialog"));
  if (dialog.open) return;
  dialog.showModal();
  /** @type {View} */ (find(dialog, "video-list")).render(store.state);
  void refreshVideos();
}

/**
 * A button that opens the browser's choice of files.
 *
 * @param {string} text
 * @param {Record<string, string>} attributes
 */
export function fileButton(text, attributes) {
  return button("upload", text, () => fileInput.click(), { class: "button", ...attributes });
}

const fileInput = /** @type {HTMLInputElement} */ (find(document, "#file-input"));
fileInput.accept = `${ACCEPTED_VIDEOS},${ACCEPTED_PICTURES}`;
fileInput.addEventListener("change", () => {
  void addFiles([...(fileInput.files ?? [])]);
  fileInput.value = "";
});

customElements.define("video-bar", VideoBar);
