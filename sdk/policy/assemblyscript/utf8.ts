import { take, reserve } from "./arena";

/**
 * A string as Flynn has it: UTF-8 bytes, somewhere in memory. Facts are views of the host's frame, so reading one copies
 * nothing and comparing one with a literal decodes nothing. `toString` makes an AssemblyScript string of it.
 *
 * It lasts until the hook has answered.
 */
@final
export class Utf8 {
  constructor(
    /** Address of the first byte. */
    readonly at: usize,
    /** Number of bytes. */
    readonly length: i32,
  ) {}

  /** Whether there is nothing in it. */
  get empty(): bool {
    return this.length == 0;
  }

  /** The byte at index. */
  byte(index: i32): u8 {
    if (<u32>index >= <u32>this.length) throw new RangeError("the index lies outside the text");
    return load<u8>(this.at + <usize>index);
  }

  /** Whether it is this text, byte for byte. */
  is<S>(text: S): bool {
    if (isString<S>()) return changetype<string>(text).length <= this.length && end(this, changetype<string>(text)) == this.length;
    return same(this, changetype<Utf8>(text));
  }

  /** Whether it begins with this text. */
  startsWith<S>(text: S): bool {
    if (isString<S>()) return end(this, changetype<string>(text)) >= 0;
    const t = changetype<Utf8>(text);
    return t.length <= this.length && memory.compare(this.at, t.at, <usize>t.length) == 0;
  }

  /** Whether it ends with this text. */
  endsWith<S>(text: S): bool {
    const t = utf8(text);
    return t.length <= this.length && memory.compare(this.at + <usize>(this.length - t.length), t.at, <usize>t.length) == 0;
  }

  /** Where this text begins, looked for from the byte `from` on, or -1. */
  indexOf<S>(text: S, from: i32 = 0): i32 {
    const t = utf8(text);
    if (t.empty) return from <= this.length ? max(from, 0) : -1;
    const first = load<u8>(t.at);
    for (let i = max(from, 0); i <= this.length - t.length; i++) {
      const at = this.at + <usize>i;
      if (load<u8>(at) == first && memory.compare(at, t.at, <usize>t.length) == 0) return i;
    }
    return -1;
  }

  /** The bytes from `from` to before `to`, which are moved to where the text has bytes. */
  slice(from: i32, to: i32 = i32.MAX_VALUE): Utf8 {
    const begin = min(max(from, 0), this.length);
    return new Utf8(this.at + <usize>begin, max(min(to, this.length), begin) - begin);
  }

  /** The parts between separators of one byte; `split(32)` splits at blanks. Empty parts are left out. */
  split(separator: u8): Utf8[] {
    const parts: Utf8[] = [];
    const end = this.at + <usize>this.length;
    let begin = this.at;
    for (let at = begin; at <= end; at++) {
      if (at < end && load<u8>(at) != separator) continue;
      if (at > begin) parts.push(new Utf8(begin, <i32>(at - begin)));
      begin = at + 1;
    }
    return parts;
  }

  /** A copy with the letters A to Z in lower case. */
  toLower(): Utf8 {
    reserve(<usize>this.length);
    const at = take(<usize>this.length);
    for (let i: usize = 0; i < <usize>this.length; i++) {
      const c = load<u8>(this.at + i);
      store<u8>(at + i, c - 65 < 26 ? c + 32 : c);
    }
    return new Utf8(at, this.length);
  }

  /** The text as an AssemblyScript string. */
  toString(): string {
    return String.UTF8.decodeUnsafe(this.at, <usize>this.length);
  }
}

/** The empty text. */
export const none: Utf8 = new Utf8(0, 0);

/** The text in UTF-8; what is that already stays what it is. Make those of literals once: `const coder = utf8("coder")`. */
export function utf8<S>(text: S): Utf8 {
  if (isString<S>()) return encoded(changetype<string>(text));
  return changetype<Utf8>(text);
}

function encoded(s: string): Utf8 {
  reserve(3 * <usize>s.length);
  const at = take(3 * <usize>s.length);
  return new Utf8(at, <i32>String.UTF8.encodeUnsafe(changetype<usize>(s), s.length, at));
}

function same(a: Utf8, b: Utf8): bool {
  return a.length == b.length && memory.compare(a.at, b.at, <usize>a.length) == 0;
}

/** Where s ends in the text that begins with it, or -1. It compares without decoding either. */
function end(text: Utf8, s: string): i32 {
  let at = text.at;
  const limit = at + <usize>text.length;
  const units = changetype<usize>(s);
  const n = <usize>s.length << 1;
  for (let i: usize = 0; i < n; i += 2) {
    const unit = <u32>load<u16>(units + i);
    if (unit >= 0x80) return ended(text, s, i, at);
    if (at >= limit || <u32>load<u8>(at) != unit) return -1;
    at++;
  }
  return <i32>(at - text.at);
}

/** The rest of end, where s is more than ASCII. */
function ended(text: Utf8, s: string, i: usize, at: usize): i32 {
  const rest = encoded(s.substring(<i32>(i >> 1)));
  const left = text.length - <i32>(at - text.at);
  if (rest.length > left || memory.compare(at, rest.at, <usize>rest.length) != 0) return -1;
  return <i32>(at - text.at) + rest.length;
}
