/** Files that are dropped anywhere on the page; on the card of start or goal, a picture becomes that moment. */

import { addFiles } from "./library.js";
import { store } from "./store.js";

/** @import {End} from "./types.js" */

/** Enter and leave events of nested elements, to know when the files have left the page. */
let depth = 0;

/** @param {DragEvent} event */
function carriesFiles(event) {
  return (
    event.dataTransfer?.types.includes("Files") === true &&
    store.state.info !== null &&
    store.state.info.encoder !== null
  );
}

/** @param {number} change */
function follow(change) {
  depth = change === 0 ? 0 : Math.max(0, depth + change);
  document.body.classList.toggle("is-dropping", depth > 0);
}

/** @param {DragEvent} event @returns {End | null} */
function endBelow(event) {
  const card = event.target instanceof Element ? event.target.closest("moment-card") : null;
  return /** @type {End | null} */ (card?.getAttribute("which") ?? null);
}

/** @param {DragEvent} event */
function markCard(event) {
  const end = endBelow(event);
  for (const card of document.querySelectorAll("moment-card"))
    card.classList.toggle("is-target", card.getAttribute("which") === end);
}

/** Accept files on the whole page. */
export function acceptDrops() {
  const on = (/** @type {string} */ name, /** @type {(event: DragEvent) => void} */ run) =>
    document.addEventListener(name, (event) => {
      if (!(event instanceof DragEvent) || !carriesFiles(event)) return;
      event.preventDefault();
      run(event);
    });
  on("dragenter", () => follow(1));
  on("dragleave", () => follow(-1));
  on("dragover", markCard);
  on("drop", (event) => {
    follow(0);
    for (const card of document.querySelectorAll("moment-card")) card.classList.remove("is-target");
    void addFiles([...(event.dataTransfer?.files ?? [])], endBelow(event));
  });
}
