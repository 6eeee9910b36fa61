import { Utf8 } from "@flynnhost/policy";

/** Scripts of the world, as far as messages can be told apart by them. */
export enum Script {
  None,
  Latin,
  Greek,
  Cyrillic,
  Armenian,
  Hebrew,
  Arabic,
  Devanagari,
  Bengali,
  Tamil,
  Thai,
  Georgian,
  Hangul,
  Kana,
  Han,
  Count,
}

/** Their names in the configuration, by number. */
export const scriptNames: string[] = [
  "", "latin", "greek", "cyrillic", "armenian", "hebrew", "arabic", "devanagari", "bengali", "tamil", "thai", "georgian", "hangul", "kana", "han",
];

/** The script of that name, or None. */
export function scriptNamed(name: Utf8): Script {
  for (let i: i32 = Script.Latin; i < Script.Count; i++) {
    if (name.is(scriptNames[i])) return <Script>i;
  }
  return Script.None;
}

/** The script of a character; None for digits, signs, and letters of other scripts. Ranges are Unicode's blocks of letters. */
export function scriptOf(c: i32): Script {
  if (c < 0x370) return isLatin(c) ? Script.Latin : Script.None;
  if (c < 0x400) return Script.Greek;
  if (c < 0x530) return Script.Cyrillic;
  if (c < 0x590) return Script.Armenian;
  if (c < 0x600) return Script.Hebrew;
  if (c < 0x700 || (c >= 0x750 && c < 0x780) || (c >= 0x8a0 && c < 0x900)) return Script.Arabic;
  if (c >= 0x900 && c < 0x980) return Script.Devanagari;
  if (c >= 0x980 && c < 0xa00) return Script.Bengali;
  if (c >= 0xb80 && c < 0xc00) return Script.Tamil;
  if (c >= 0xe00 && c < 0xe80) return Script.Thai;
  if (c >= 0x10a0 && c < 0x1100) return Script.Georgian;
  if (c >= 0x1100 && c < 0x1200) return Script.Hangul;
  if (c >= 0x1e00 && c < 0x1f00) return Script.Latin;
  if (c >= 0x1f00 && c < 0x2000) return Script.Greek;
  if (c >= 0x3040 && c < 0x3100) return Script.Kana;
  if (c >= 0x3400 && c < 0xa000) return Script.Han;
  if (c >= 0xac00 && c < 0xd7b0) return Script.Hangul;
  if (c >= 0xf900 && c < 0xfb00) return Script.Han;
  if (c >= 0xfb1d && c < 0xfb50) return Script.Hebrew;
  if ((c >= 0xfb50 && c < 0xfe00) || (c >= 0xfe70 && c < 0xff00)) return Script.Arabic;
  if (c >= 0xff66 && c < 0xff9e) return Script.Kana;
  if (c >= 0x20000 && c < 0x30000) return Script.Han;
  return Script.None;
}

function isLatin(c: i32): bool {
  if (c < 0x80) return (c | 0x20) >= 0x61 && (c | 0x20) <= 0x7a;
  return c >= 0xc0 && c != 0xd7 && c != 0xf7 && c < 0x300;
}

/** How many letters of each script the text has. */
export function countScripts(text: Utf8): i32[] {
  const counts: i32[] = [];
  for (let i: i32 = 0; i < Script.Count; i++) counts.push(0);
  const s = text.toString();
  for (let i = 0; i < s.length; i++) {
    const c = s.codePointAt(i);
    if (c > 0xffff) i++;
    counts[scriptOf(c)]++;
  }
  // Japanese writes with both: where there is kana, Han is a part of it.
  if (counts[Script.Kana] > 0) {
    counts[Script.Kana] += counts[Script.Han];
    counts[Script.Han] = 0;
  }
  return counts;
}

/** The script that most letters are of, if these are at least so many; on a tie the one that stands first in Script. */
export function mainScript(text: Utf8, least: i32): Script {
  const counts = countScripts(text);
  let best: i32 = Script.None;
  for (let i: i32 = Script.Latin; i < Script.Count; i++) {
    if (counts[i] >= least && (best == Script.None || counts[i] > counts[best])) best = i;
  }
  return <Script>best;
}
