/** Making and finding elements. Text is always set as text, never read as markup. */

/**
 * Make an element; a value of false, null or undefined leaves an attribute out, and a function listens to an event.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} [attributes]
 * @param {...(Node | string | null)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value === true ? "" : `${value}`);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/**
 * The element that a selector names; an error if there is none.
 *
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {HTMLElement}
 */
export function find(root, selector) {
  const found = root.querySelector(selector);
  if (!(found instanceof HTMLElement)) throw new Error(`no element ${selector}`);
  return found;
}

/**
 * An icon of the sprite in index.html, hidden from screen readers.
 *
 * @param {string} name
 */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/**
 * A button with an icon, a text, or both.
 *
 * @param {string | null} name  of the icon
 * @param {string} text
 * @param {(event: MouseEvent) => void} onClick
 * @param {Record<string, string | number | boolean | null>} [attributes]  with `aria-label`, the text is left out
 */
export function button(name, text, onClick, attributes = {}) {
  const content = "aria-label" in attributes ? null : make("span", {}, text);
  return make("button", { type: "button", ...attributes, click: onClick }, name ? icon(name) : null, content);
}

/**
 * Calls a function once it has not been asked for during a time.
 *
 * @template {unknown[]} Arguments
 * @param {number} delayMs
 * @param {(...values: Arguments) => void} run
 */
export function whenAtRest(delayMs, run) {
  let timer = 0;
  /** @param {Arguments} values */
  function ask(...values) {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => run(...values), delayMs);
  }
  ask.cancel = () => window.clearTimeout(timer);
  return ask;
}

/** Say something to screen readers. @param {string} text */
export function announce(text) {
  find(document, "#announcer").textContent = text;
}
