/** The videos to choose from, in groups, with a search field where there are many. */

import { frameAddress } from "./api.js";
import { button, find, make } from "./dom.js";
import { chooseOther, removeVideo } from "./library.js";
import { showPicture } from "./pictures.js";
import { factsOf } from "./video-bar.js";
import { View } from "./view.js";

/** @import {State, Video} from "./types.js" */

const MANY = 8;
const GROUPS = /** @type {const} */ ([
  ["upload", "Uploads"],
  ["clip", "Example clips"],
  ["dataset", "Videos of the dataset"],
]);

export class VideoList extends View {
  static watches = /** @type {const} */ (["videos", "video"]);

  #search = make("input", {
    type: "search",
    id: "video-search",
    placeholder: "Search",
    "aria-label": "Search videos by name",
    autocomplete: "off",
  });
  #groups = make("div", { class: "video-groups" });
  #found = make("p", { class: "note", "aria-live": "polite" });

  /** @type {Video[]} */
  #videos = [];

  build() {
    this.#search.addEventListener("input", () => this.#filter());
    this.append(this.#search, this.#found, this.#groups);
  }

  /** @param {State} state */
  render({ videos, video }) {
    if (!this.closest("dialog")?.open) return; // no pictures are asked for before somebody looks at them
    this.#search.hidden = videos.length <= MANY;
    if (videos !== this.#videos) {
      this.#videos = videos;
      this.#groups.replaceChildren(...GROUPS.map(([source, title]) => group(title, source, videos)));
      this.#filter();
    }
    for (const row of this.querySelectorAll("[data-video]")) {
      row.setAttribute("aria-pressed", `${row.getAttribute("data-video") === video?.id}`);
    }
  }

  #filter() {
    const words = this.#search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const row of this.#groups.querySelectorAll("li")) {
      const name = row.dataset.name ?? "";
      row.hidden = !words.every((word) => name.includes(word));
      if (!row.hidden) found += 1;
    }
    for (const section of this.#groups.querySelectorAll("section"))
      section.hidden = !section.querySelector("li:not([hidden])");
    this.#found.textContent = words.length ? `${found} of ${this.#videos.length} videos` : "";
  }
}

/** @param {string} title @param {Video["source"]} source @param {Video[]} videos */
function group(title, source, videos) {
  const rows = videos.filter((video) => video.source === source).map(rowOf);
  return make("section", {}, make("h3", {}, title), make("ul", {}, ...rows));
}

/** @param {Video} video */
function rowOf(video) {
  const text = make(
    "span",
    { class: "video-title" },
    make("span", { class: "video-name" }, video.name),
    make("span", { class: "video-facts" }, factsOf(video)),
  );
  const choose = make(
    "button",
    { type: "button", class: "video-row", "data-video": video.id, click: () => pick(video) },
    video.source === "dataset" ? null : thumbnail(video), // a dataset has hundreds of videos
    text,
  );
  const remove =
    video.source === "upload"
      ? button("delete", "", () => void removeRow(video), {
          class: "icon-button",
          "data-delete": video.id,
          "aria-label": `Delete ${video.name}`,
        })
      : null;
  return make("li", { "data-name": video.name.toLowerCase() }, choose, remove);
}

/** A frame of the middle, or of the first second where the length is not known. @param {Video} video */
function thumbnail(video) {
  const slot = make("span", { class: "thumbnail" });
  if (!video.has_frames) return slot;
  const image = make("img", { alt: "", hidden: true });
  void showPicture(image, frameAddress(video.id, Math.round((video.length_s ?? 2) / 2), 72));
  slot.append(image);
  return slot;
}

/** Delete a video; the focus goes on to another one, or to the button that closes the dialog. @param {Video} video */
async function removeRow(video) {
  await removeVideo(video);
  window.requestAnimationFrame(() => find(document, "#videos-dialog :is([data-video], [data-close])").focus());
}

/** @param {Video} video */
function pick(video) {
  /** @type {HTMLDialogElement | null} */ (document.querySelector("#videos-dialog[open]"))?.close();
  void chooseOther(video.id);
}

customElements.define("video-list", VideoList);
