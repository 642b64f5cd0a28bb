/** Whether the page plans or follows; what is needed to follow is loaded when it is first asked for. */

import { ServiceError } from "./api.js";
import { announce } from "./dom.js";
import { pausePlanning, planSoon } from "./planning.js";
import { togglePlay } from "./playback.js";
import { problemOf } from "./problems.js";
import { store } from "./store.js";

/** Follow the video from the playhead on. */
export function startFollowing() {
  const { info, video, isPlaying } = store.state;
  if (!info?.can_follow || !video) return;
  store.set({ mode: "follow" });
  if (!isPlaying) togglePlay();
}

/** Back to plans between two moments. */
export function stopFollowing() {
  if (store.state.mode !== "follow") return;
  store.set({ mode: "plan", isPlaying: false });
  announce("The video is not followed any more.");
  planSoon();
}

export function toggleFollowing() {
  if (store.state.mode === "follow") stopFollowing();
  else startFollowing();
}

async function load() {
  if (store.state.mode !== "follow") return;
  pausePlanning();
  try {
    await import("./follow-panel.js");
  } catch {
    store.set({ mode: "plan", planProblem: problemOf(ServiceError.unreachable(), startFollowing) });
  }
}

store.watch(["mode"], () => void load());
