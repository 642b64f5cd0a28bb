/**
 * Moving the playhead. The element that shows the video follows `playhead` and `isPlaying` of the store.
 *
 * @import {State} from "./types.js"
 */

import { canPlay, frameLength, lengthOf, store } from "./store.js";

const STEP_MS = 1000; // between two seconds of a video that the browser cannot play

/** A second within the video. @param {number} second */
export function clampTime(second) {
  return Math.min(Math.max(0, second), lengthOf(store.state));
}

/** @param {number} second */
export function seek(second) {
  store.set({ playhead: clampTime(second), isPlaying: false });
}

/** @param {number} number of frames, negative: back */
export function stepFrames(number) {
  seek(store.state.playhead + number * frameLength(store.state));
}

/** @param {number} number of seconds, negative: back */
export function stepSeconds(number) {
  seek(store.state.playhead + number);
}

/** Play or pause; where the browser cannot play and no video is followed, go on by a second. */
export function togglePlay() {
  const { state } = store;
  if (!state.video || !hasPlay(state)) return;
  if (!canPlay(state) && state.mode === "plan") stepSeconds(1);
  else if (!state.isPlaying && state.playhead >= lengthOf(state) - 0.05) store.set({ playhead: 0, isPlaying: true });
  else store.set({ isPlaying: !state.isPlaying });
}

/** Whether there is something to play: a video without pictures can be followed all the same. @param {State} state */
function hasPlay({ video, mode }) {
  return video !== null && (video.has_frames || mode === "follow");
}

let stepping = 0;

/** Where the browser cannot play, the playhead goes on by itself. */
function stepOrRest() {
  const { state } = store;
  window.clearInterval(stepping);
  if (state.isPlaying && !canPlay(state)) stepping = window.setInterval(stepOn, STEP_MS);
}

function stepOn() {
  const playhead = clampTime(store.state.playhead + 1);
  store.set({ playhead, isPlaying: playhead < lengthOf(store.state) });
}

store.watch(["isPlaying", "video", "cannotPlay"], stepOrRest);
