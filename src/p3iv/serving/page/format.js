/** Times, probabilities and sizes as people read and type them. */

const NBSP = "\u00a0";

/** 62.5 -> "1:02.5"; a second decimal only where it is needed. @param {number} seconds */
export function formatTime(seconds) {
  const hundredths = Math.round(seconds * 100);
  const whole = Math.floor(hundredths / 100);
  const decimals = String(hundredths % 100)
    .padStart(2, "0")
    .replace(/0$/, "");
  const minutes = Math.floor(whole / 60) % 60;
  const hours = Math.floor(whole / 3600);
  const start = hours ? `${hours}:${String(minutes).padStart(2, "0")}` : `${minutes}`;
  return `${start}:${String(whole % 60).padStart(2, "0")}.${decimals}`;
}

/** 62 -> "1:02". @param {number} seconds */
export function formatLength(seconds) {
  return formatTime(Math.round(seconds)).replace(/\.\d+$/, "");
}

/**
 * "12.5", "12,5", "1:02.5" and "1:00:02" -> seconds; null for anything else.
 *
 * @param {string} text
 * @returns {number | null}
 */
export function parseTime(text) {
  const found = /^(?:(?:(\d+):)?([0-5]?\d):)?(\d+(?:[.,]\d*)?)$/.exec(text.trim());
  if (!found) return null;
  const [, hours = "0", minutes = null, seconds] = found;
  const rest = Number(seconds.replace(",", "."));
  if (minutes !== null && rest >= 60) return null;
  return Number(hours) * 3600 + Number(minutes ?? 0) * 60 + rest;
}

/** 12.5 -> "12.5 seconds, 0 minutes 12.5". @param {number} seconds */
export function spokenTime(seconds) {
  const rounded = roundTime(seconds);
  return `${rounded} seconds, ${Math.floor(rounded / 60)} minutes ${roundTime(rounded % 60)}`;
}

/** To a hundredth of a second. @param {number} seconds */
export function roundTime(seconds) {
  return Math.round(seconds * 100) / 100;
}

/** 0.6067 -> "60.7 %". @param {number} share @param {number} [digits] */
export function percent(share, digits = 1) {
  if (share > 0 && share < 0.0005) return `<${NBSP}0.1${NBSP}%`;
  return `${(100 * share).toFixed(digits)}${NBSP}%`;
}

/** A share for a sentence: 0.6067 -> "61 %", 0.042 -> "4.2 %". @param {number} share */
export function roundPercent(share) {
  const isNearEnd = share < 0.0995 || (share > 0.995 && share < 1);
  return percent(share, isNearEnd ? 1 : 0);
}

/** 3, "step" -> "3 steps". @param {number} number @param {string} noun */
export function counted(number, noun) {
  return `${number}${NBSP}${noun}${number === 1 ? "" : "s"}`;
}

/** @param {number} bytes */
export function formatBytes(bytes) {
  const units = ["bytes", "kB", "MB", "GB"];
  const power = bytes < 1000 ? 0 : Math.min(3, Math.floor(Math.log10(bytes) / 3));
  return `${Number((bytes / 1000 ** power).toPrecision(3))}${NBSP}${units[power]}`;
}

/** How long something is still there. @param {number} seconds */
export function remaining(seconds) {
  const minutes = Math.max(1, Math.round(seconds / 60));
  return minutes < 90 ? `${minutes}${NBSP}min` : `${Math.round(minutes / 60)}${NBSP}h`;
}
