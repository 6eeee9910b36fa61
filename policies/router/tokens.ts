import { Script, scriptOf } from "./scripts";

/** The words of a text in lower case. What is no letter stands between them. */
export function tokens(text: string): string[] {
  const all: string[] = [];
  const s = text.toLowerCase();
  let begin = 0;
  for (let i = 0; i <= s.length; i++) {
    if (i < s.length && (scriptOf(s.charCodeAt(i)) != Script.None || isMark(s.charCodeAt(i)))) continue;
    if (i > begin) all.push(s.substring(begin, i));
    begin = i + 1;
  }
  return all;
}

/** Combining marks, which letters may be written with. */
function isMark(c: i32): bool {
  return c >= 0x300 && c < 0x370;
}
