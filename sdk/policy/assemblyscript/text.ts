import { Utf8, utf8 } from "./utf8";

// Reading what people write and configure. Import it from "@flynnhost/policy/text".

const BLANK: u8 = 0x20;
const NEWLINE: u8 = 0x0a;

/** The parts between blanks, ends of lines, and one other byte: `words(text, 0x2c)` parts at commas, too. */
export function words(text: Utf8, also: u8 = BLANK): Utf8[] {
  const all: Utf8[] = [];
  const end = text.at + <usize>text.length;
  let begin = text.at;
  for (let at = begin; at <= end; at++) {
    if (at < end) {
      const c = load<u8>(at);
      if (c > BLANK && c != also) continue;
    }
    if (at > begin) all.push(new Utf8(begin, <i32>(at - begin)));
    begin = at + 1;
  }
  return all;
}

/** The lines of a text that say something: no blank ones, and none whose first word is a "#". */
export function lines(text: Utf8): Utf8[] {
  const all = text.split(NEWLINE);
  const some: Utf8[] = [];
  for (let i = 0; i < all.length; i++) {
    const line = all[i];
    let begin = 0;
    while (begin < line.length && line.byte(begin) <= BLANK) begin++;
    const left = line.length - begin;
    const comment = left > 0 && line.byte(begin) == 0x23 && (left == 1 || line.byte(begin + 1) <= BLANK);
    if (left > 0 && !comment) some.push(line);
  }
  return some;
}

/** The text in lower case, whatever its alphabet. */
export function folded(text: Utf8): Utf8 {
  const end = text.at + <usize>text.length;
  for (let at = text.at; at < end; at++) {
    if (load<u8>(at) >= 0x80) return utf8(text.toString().toLowerCase());
  }
  return text.toLower();
}

/**
 * The index of the first of the words that the text has, not as a part of another one; -1 when it has none. Letter case counts:
 * fold both where it should not. It goes over the text once.
 */
export function firstWord(text: Utf8, words: Utf8[]): i32 {
  const begins = new StaticArray<bool>(256);
  for (let k = 0; k < words.length; k++) {
    if (!words[k].empty) begins[words[k].byte(0)] = true;
  }
  let best = words.length;
  let inside = false;
  for (let i = 0; i < text.length; i++) {
    const c = load<u8>(text.at + <usize>i);
    const before = inside;
    inside = isWord(c);
    // A word that begins with a letter begins where no letter stands before it, and so does "@word": "@coder" is not in "bob@coder".
    if (before || !unchecked(begins[c])) continue;
    for (let k = 0; k < best; k++) {
      if (standsAt(text, i, unchecked(words[k]))) best = k;
    }
  }
  return best < words.length ? best : -1;
}

// The last byte is compared first: most words that begin alike differ there.
function standsAt(text: Utf8, i: i32, word: Utf8): bool {
  const n = word.length;
  if (n > text.length - i || n == 0) return false;
  const at = text.at + <usize>i;
  const last = <usize>n - 1;
  if (load<u8>(at + last) != load<u8>(word.at + last) || memory.compare(at, word.at, last) != 0) return false;
  return n == text.length - i || !isWord(load<u8>(at + <usize>n));
}

/** Bytes of other alphabets count as letters: "deploy" is no word of "deployé". */
function isWord(c: u8): bool {
  const l = c | 0x20;
  return (l >= 0x61 && l <= 0x7a) || (c >= 0x30 && c <= 0x39) || c == 0x5f || c >= 0x80;
}
