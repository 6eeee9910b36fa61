import { ENTRY_SIZE, FRAME_OUTPUT, HEADER_SIZE, MAGIC, OUT_REASON, TYPE_STRING } from "./abi";
import { MAX_OUTPUT, region, regionSize } from "./region";
import { Utf8 } from "./utf8";

// The output frame lies here until it is whole: names and reasons are often views of the very region that it goes to.
const scratch: usize = memory.data(<i32>MAX_OUTPUT, 8);

/**
 * Puts the texts that are not empty into an output frame at the start of the region, and returns its length. A reason is cut to
 * fit; a name that does not fit makes it 0.
 */
export function writeOutput(field: u32, name: Utf8, reason: Utf8): u32 {
  const limit = min(regionSize(), MAX_OUTPUT);
  let end = HEADER_SIZE + (name.empty || reason.empty ? ENTRY_SIZE : 2 * ENTRY_SIZE);
  let entries: u32 = 0;
  if (end > limit || <u32>name.length > limit - end) return 0;
  if (!name.empty) {
    end = put(entries++, end, field, name.at, <u32>name.length);
  }
  const n = cut(reason, limit - end);
  if (n > 0) {
    end = put(entries++, end, OUT_REASON, reason.at, n);
  }
  store<u32>(scratch, MAGIC);
  store<u32>(scratch, FRAME_OUTPUT | (entries << 16), 4);
  store<u32>(scratch, end, 8);
  store<u32>(scratch, 0, 12);
  memory.copy(region(), scratch, <usize>end);
  return end;
}

/** Writes entry number i with its value at end, and returns the end of the value. */
function put(i: u32, end: u32, field: u32, at: usize, length: u32): u32 {
  const entry = scratch + <usize>(HEADER_SIZE + i * ENTRY_SIZE);
  store<u32>(entry, field | (TYPE_STRING << 16));
  store<u32>(entry, end, 4);
  store<u32>(entry, length, 8);
  memory.copy(scratch + <usize>end, at, <usize>length);
  return end + length;
}

/** How much of s fits n bytes without splitting a character. */
function cut(s: Utf8, n: u32): u32 {
  if (<u32>s.length <= n) return <u32>s.length;
  while (n > 0 && (load<u8>(s.at + <usize>n) & 0xc0) == 0x80) n--;
  return n;
}
