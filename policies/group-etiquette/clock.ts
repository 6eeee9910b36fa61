import { Utf8 } from "@flynnhost/policy";

const DAY = 24 * 60;
const DASH: u8 = 0x2d;
const COLON: u8 = 0x3a;

/** A span of the day, in minutes. */
export class Span {
  constructor(
    readonly from: i32,
    readonly to: i32,
  ) {}

  /** One that ends before it begins goes over midnight, one that ends where it begins is the whole day. */
  has(minute: i64): bool {
    if (this.from < this.to) return minute >= this.from && minute < this.to;
    return minute >= this.from || minute < this.to;
  }
}

/** Reads "22:00-07:00". */
export function readSpan(text: Utf8): Span {
  if (text.length != 11 || text.byte(5) != DASH) throw new Error("not a span like 22:00-07:00: " + text.toString());
  return new Span(readTime(text.slice(0, 5)), readTime(text.slice(6)));
}

/** Reads "07:30"; "24:00" is the end of the day. */
function readTime(text: Utf8): i32 {
  const minute = readNumber(text.slice(3));
  const at = readNumber(text.slice(0, 2)) * 60 + minute;
  if (text.byte(2) != COLON || minute > 59 || at > DAY) throw new Error("not a time like 07:30: " + text.toString());
  return <i32>at;
}

/** Reads "90s", "15m", "2h" or "1d", in seconds. */
export function readDuration(text: Utf8): i64 {
  if (text.length < 2) throw new Error("not a duration like 15m: " + text.toString());
  const n = readNumber(text.slice(0, text.length - 1));
  switch (text.byte(text.length - 1)) {
    case 0x73: // s
      return n;
    case 0x6d: // m
      return n * 60;
    case 0x68: // h
      return n * 3600;
    case 0x64: // d
      return n * 86_400;
  }
  throw new Error("not a duration like 90s, 15m, 2h or 1d: " + text.toString());
}

/** Reads decimal digits, at most nine of them. */
export function readNumber(text: Utf8): i64 {
  let n: i64 = 0;
  if (text.empty || text.length > 9) throw new Error("not a number: " + text.toString());
  for (let i = 0; i < text.length; i++) {
    const digit = <i64>text.byte(i) - 0x30;
    if (digit < 0 || digit > 9) throw new Error("not a number: " + text.toString());
    n = n * 10 + digit;
  }
  return n;
}
