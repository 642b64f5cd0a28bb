/**
 * The base of the elements of the page: built once, then rendered when a part of the state that it watches changes.
 *
 * @import {State} from "./types.js"
 */

import { store } from "./store.js";

export class View extends HTMLElement {
  /** The parts of the state that it shows. @type {readonly (keyof State)[]} */
  static watches = [];

  #isBuilt = false;

  /** @type {() => void} */
  #unwatch = () => {};

  connectedCallback() {
    if (!this.#isBuilt) this.build();
    this.#isBuilt = true;
    const { watches } = /** @type {typeof View} */ (this.constructor);
    this.#unwatch = store.watch(watches, () => this.render(store.state));
    this.render(store.state);
  }

  disconnectedCallback() {
    this.#unwatch();
  }

  /** Make the parts that stay. */
  build() {}

  /** Show the state. @param {State} _state */
  render(_state) {}
}
