// What a terminal sends for the keys of a person.

const named = {
  Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Insert: "\x1b[2~", Delete: "\x1b[3~", PageUp: "\x1b[5~", PageDown: "\x1b[6~",
  F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS", F5: "\x1b[15~", F7: "\x1b[18~", F8: "\x1b[19~", F9: "\x1b[20~", F10: "\x1b[21~",
};
const arrows = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };

// leaves is the key that goes on from the terminal, as Tab does everywhere else.
export const leaves = "F6";

// sent is the text for an event of the keyboard, or undefined if the browser keeps it: copying, pasting and what has the system's key.
export function sent(e, keypad) {
  if (e.metaKey || e.isComposing || e.key === leaves) return undefined;
  if (e.key === "Tab" && e.shiftKey) return "\x1b[Z";
  if (arrows[e.key]) return "\x1b" + (keypad ? "O" : "[") + arrows[e.key];
  if (named[e.key]) return (e.altKey ? "\x1b" : "") + named[e.key];
  if ([...e.key].length !== 1) return undefined;
  if (e.ctrlKey && !e.altKey) {
    if (e.shiftKey || e.key === "v" || e.key === "c" && String(getSelection())) return undefined;
    const code = e.key === " " ? 0 : e.key.toUpperCase().charCodeAt(0) & 31;
    return /^[a-z @[\\\]^_]$/i.test(e.key) ? String.fromCharCode(code) : undefined;
  }
  return (e.altKey && !e.ctrlKey ? "\x1b" : "") + e.key;
}

// pasted is a text of the clipboard as typed, without what would press keys.
export const pasted = (text) => text.replace(/\r?\n/g, "\r").replace(/[^\P{Cc}\r\t]/gu, "");
