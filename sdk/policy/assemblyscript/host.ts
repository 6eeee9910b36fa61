import { next, reserve, room, take } from "./arena";
import { MATCH_CIDR, MATCH_DOMAIN, MATCH_GLOB, MATCH_RE2 } from "./abi";
import { Utf8, utf8 } from "./utf8";

// The imports of module "flynn1". Those with buf and cap write nothing unless it fits, and return the full length, or -1
// when there is no such thing.

// @ts-ignore: decorator
@external("flynn1", "get")
declare function hostGet(field: u32, index: u32, buf: usize, cap: usize): i32;
// @ts-ignore: decorator
@external("flynn1", "arg")
declare function hostArg(pointer: usize, length: i32, buf: usize, cap: usize): i32;
// @ts-ignore: decorator
@external("flynn1", "arg_kind")
declare function hostArgKind(pointer: usize, length: i32): i32;
// @ts-ignore: decorator
@external("flynn1", "data")
declare function hostData(key: usize, length: i32, buf: usize, cap: usize): i32;
// @ts-ignore: decorator
@external("flynn1", "match")
declare function hostMatch(kind: u32, pattern: usize, patternLength: i32, s: usize, length: i32): i32;
// @ts-ignore: decorator
@external("flynn1", "trace")
declare function hostTrace(rule: u32, hit: u32): void;
// @ts-ignore: decorator
@external("flynn1", "log")
declare function hostLog(level: u32, text: usize, length: i32): void;

/** What get has of a field that is too large for the frame. */
export function wholeField(field: u32): Utf8 | null {
  let n = hostGet(field, 0, next(), <usize>room());
  if (n > room()) {
    reserve(<usize>n);
    n = hostGet(field, 0, next(), <usize>room());
  }
  return taken(n);
}

/** What arg has at a JSON Pointer. */
export function argument(pointer: Utf8): Utf8 | null {
  let n = hostArg(pointer.at, pointer.length, next(), <usize>room());
  if (n > room()) {
    reserve(<usize>n);
    n = hostArg(pointer.at, pointer.length, next(), <usize>room());
  }
  return taken(n);
}

/** The kind of what stands at a JSON Pointer. */
export function argumentKind(pointer: Utf8): u32 {
  return <u32>hostArgKind(pointer.at, pointer.length);
}

function configured(key: Utf8): Utf8 | null {
  let n = hostData(key.at, key.length, next(), <usize>room());
  if (n > room()) {
    reserve(<usize>n);
    n = hostData(key.at, key.length, next(), <usize>room());
  }
  return taken(n);
}

/** The n bytes that the host has just written, if it has. */
function taken(n: i32): Utf8 | null {
  if (n < 0) return null;
  if (n > room()) throw new Error("the host gave another length when asked again");
  return new Utf8(take(<usize>n), n);
}

/** One value of the policy's own configuration, [policies.data] in flynn.toml, or null where the key is not set. */
export function data<S>(key: S): Utf8 | null {
  return configured(utf8(key));
}

/** Whether s matches one of Flynn's globs, with the meaning that it has in routing. A bad pattern fails the policy. */
export function glob<P, S>(pattern: P, s: S): bool {
  return matches(MATCH_GLOB, utf8(pattern), utf8(s));
}

/** Whether the address s lies in the prefix. A bad prefix fails the policy. */
export function cidr<P, S>(prefix: P, s: S): bool {
  return matches(MATCH_CIDR, utf8(prefix), utf8(s));
}

/** Whether s matches a regular expression of Go's package regexp. A bad one fails the policy. */
export function re2<P, S>(expression: P, s: S): bool {
  return matches(MATCH_RE2, utf8(expression), utf8(s));
}

/** Whether s is the domain or one below it. A bad domain fails the policy. */
export function domain<P, S>(name: P, s: S): bool {
  return matches(MATCH_DOMAIN, utf8(name), utf8(s));
}

/** There is no quiet "no" for a pattern that means nothing: in a rule that restricts, that would loosen. */
function matches(kind: u32, pattern: Utf8, s: Utf8): bool {
  const answer = hostMatch(kind, pattern.at, pattern.length, s.at, s.length);
  if (answer < 0) throw new Error("the host refuses this pattern: " + pattern.toString());
  return answer == 1;
}

/** Notes in the decision's record that a rule was looked at, and whether it applied. */
export function trace(rule: u32, hit: bool): void {
  hostTrace(rule, hit ? 1 : 0);
}

/** Levels of a line in the decision's record. */
export enum Level {
  Debug,
  Info,
  Warn,
  Error,
}

/** Notes a line in the decision's record. The host keeps a few kilobytes of them for each decision. */
export function log<S>(level: Level, text: S): void {
  const t = utf8(text);
  hostLog(<u32>level, t.at, t.length);
}
