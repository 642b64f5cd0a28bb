/** Pictures that come from the service. */

const RETRY_MS = 1500;

/**
 * What each picture should show, to drop those that arrive too late.
 *
 * @type {WeakMap<HTMLImageElement, string | null>}
 */
const wanted = new WeakMap();

/**
 * Show a picture once it has arrived; the one before stays until then. One that cannot be loaded is hidden.
 *
 * @param {HTMLImageElement} image
 * @param {string | null} address
 * @returns {Promise<boolean>} whether it is shown
 */
export async function showPicture(image, address) {
  if (wanted.get(image) === address) return !image.hidden;
  wanted.set(image, address);
  if (address === null) {
    image.hidden = true;
    image.removeAttribute("src");
    return false;
  }
  const isThere = await arrives(address);
  if (wanted.get(image) !== address) return false;
  if (isThere) image.src = address;
  else wanted.delete(image);
  image.hidden = !isThere;
  return isThere;
}

/**
 * Whether a picture can be loaded; where it fails, it is tried once more, since the service may have been busy.
 *
 * @param {string} address
 * @param {number} [tries]
 * @returns {Promise<boolean>}
 */
async function arrives(address, tries = 2) {
  const loading = new Image();
  loading.src = address;
  try {
    await loading.decode();
    return true;
  } catch {
    if (tries === 1) return false;
    await new Promise((resolve) => window.setTimeout(resolve, RETRY_MS));
    return arrives(address, tries - 1);
  }
}
