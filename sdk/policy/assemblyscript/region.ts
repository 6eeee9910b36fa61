import { keep } from "./arena";

/** No output frame is larger, in bytes; the host accepts none that is. */
export const MAX_OUTPUT: u32 = 8 << 10;

// No frame of sane facts is larger.
const MAX_REGION: u32 = 4 << 20;

let at: usize = 0;
let size: u32 = 0;

/** Where the host puts frames, and the module its answers. */
export function region(): usize {
  return at;
}

export function regionSize(): u32 {
  return size;
}

/** Makes the region at least so large and returns its address, or 0 where that is too much. */
export function enlarge(least: u32): usize {
  if (least > MAX_REGION) return 0;
  if (least > size || size == 0) {
    // Doubled, so that what is left behind is never more than what is in use.
    size = max(max(least, MAX_OUTPUT), 2 * size);
    at = keep(<usize>size);
  }
  return at;
}
