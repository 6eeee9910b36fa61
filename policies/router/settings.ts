import { folded, words } from "@flynnhost/policy/text";
import { Utf8, data, none, utf8 } from "@flynnhost/policy";
import { Language } from "./languages";
import { Script, scriptNamed } from "./scripts";

/** A word, a glob or a name, and the agent for it. */
export class Pair {
  constructor(
    readonly key: Utf8,
    readonly agent: Utf8,
  ) {}
}

/** What the data says. All of it is read for every message: a slip shows on the first one, not on the unlucky one. */
export class Settings {
  readonly mentions: Pair[] = pairs("mentions");
  readonly places: Pair[] = pairs("places");
  readonly languages: Language[] = languages();
  readonly scripts: Pair[] = scripts();
  readonly order: Utf8[] = order();
  readonly leastWords: i32 = number("least_words", 2);
  readonly leastLetters: i32 = number("least_letters", 3);
}

function setting(key: string): Utf8 {
  const value = data(key);
  return value !== null ? value : none;
}

/** Reads "key=agent key=agent". An agent is what stands behind the last "=". */
function pairs(key: string): Pair[] {
  const all: Pair[] = [];
  const list = words(setting(key));
  for (let i = 0; i < list.length; i++) {
    const equals = lastEquals(list[i]);
    if (equals < 1 || equals + 1 == list[i].length) throw new Error(key + " is not like word=agent: " + list[i].toString());
    all.push(new Pair(list[i].slice(0, equals), list[i].slice(equals + 1)));
  }
  return all;
}

function lastEquals(text: Utf8): i32 {
  for (let i = text.length - 1; i >= 0; i--) {
    if (text.byte(i) == 0x3d) return i;
  }
  return -1;
}

function languages(): Language[] {
  const all: Language[] = [];
  const list = pairs("languages");
  for (let i = 0; i < list.length; i++) {
    all.push(new Language(list[i].key, list[i].agent));
  }
  return all;
}

function scripts(): Pair[] {
  const list = pairs("scripts");
  for (let i = 0; i < list.length; i++) {
    if (scriptNamed(list[i].key) == Script.None) throw new Error("scripts has the unknown script " + list[i].key.toString());
  }
  return list;
}

const ORDER = utf8("mention place language script");

function order(): Utf8[] {
  const own = setting("order");
  const list = words(own.empty ? ORDER : own);
  const known = words(ORDER);
  for (let i = 0; i < list.length; i++) {
    let is = false;
    for (let k = 0; k < known.length; k++) is = is || known[k].is(list[i]);
    if (!is) throw new Error("order is made of " + ORDER.toString() + ", not " + list[i].toString());
  }
  return list;
}

/** Reads a number from 1 to 999. */
function number(key: string, otherwise: i32): i32 {
  const text = setting(key);
  if (text.empty) return otherwise;
  let n = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = <i32>text.byte(i) - 0x30;
    if (digit < 0 || digit > 9 || text.length > 3) throw new Error(key + " is not a number from 1 to 999: " + text.toString());
    n = n * 10 + digit;
  }
  if (n == 0) throw new Error(key + " is 0");
  return n;
}
