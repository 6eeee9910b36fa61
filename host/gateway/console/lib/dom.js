// Building DOM nodes. This page never parses HTML: text of agents, tools and people becomes text nodes.

// el makes an element. Props are attributes, except on* (listeners) and class; false and null are left out.
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === false || value == null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c != null && c !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

// isSpace reports whether the character with a code is white space.
export function isSpace(code) {
  return code === 0x20 || code >= 0x09 && code <= 0x0d || code === 0xa0 || code === 0x1680 || code >= 0x2000 && code <= 0x200a ||
    code === 0x2028 || code === 0x2029 || code === 0x202f || code === 0x205f || code === 0x3000 || code === 0xfeff;
}

// Characters that show as nothing or reorder what is around them, besides tab and newline: first and last of each range.
const invisible = [
  [0x00, 0x08], [0x0b, 0x1f], [0x7f, 0x9f], [0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x115f, 0x1160], [0x17b4, 0x17b5], [0x180b, 0x180f],
  [0x200b, 0x200f], [0x2028, 0x202f], [0x205f, 0x206f], [0x3164, 0x3164], [0xfe00, 0xfe0f], [0xfeff, 0xfeff], [0xffa0, 0xffa0], [0xfff0, 0xfffb],
  [0x1d173, 0x1d17a], [0xe0000, 0xe0fff],
];

function hides(code) {
  return (code < 0x20 || code > 0x7e) && invisible.some(([first, last]) => code >= first && code <= last);
}

// revealed returns nodes for text with every invisible character shown: what a person approves must be what runs.
export function revealed(text) {
  const nodes = [];
  let from = 0;
  for (let at = 0; at < text.length;) {
    const code = text.codePointAt(at);
    const next = at + (code > 0xffff ? 2 : 1);
    if (hides(code)) {
      nodes.push(text.slice(from, at), el("span", { class: "char", title: "invisible character" }, "U+" + code.toString(16).toUpperCase().padStart(4, "0")));
      from = next;
    }
    at = next;
  }
  nodes.push(text.slice(from));
  return nodes;
}

// oneLine is the beginning of a text, with one space for each run of white space.
export function oneLine(text, most) {
  let out = "";
  for (let at = 0; at < text.length && out.length < most; at++) {
    const space = isSpace(text.charCodeAt(at));
    if (!space) out += text.charAt(at);
    else if (!out.endsWith(" ")) out += " ";
  }
  return out;
}

// plain removes terminal control sequences from a tool's output, and line breaks at its end.
export function plain(text) {
  let out = "";
  let from = 0;
  for (let at = 0; (at = text.indexOf("\u001b", at)) >= 0;) {
    const end = sequence(text, at);
    if (end > at) {
      out += text.slice(from, at);
      from = end;
    }
    at = Math.max(end, at + 1);
  }
  out = (out + text.slice(from)).replaceAll("\r\n", "\n").replaceAll("\r", "\n");
  let last = out.length;
  while (out.charCodeAt(last - 1) === 0x0a) last--;
  return out.slice(0, last);
}

// sequence is the end of the control sequence that begins at an escape; the same place if none does.
function sequence(text, at) {
  const within = (i, first, last) => text.charCodeAt(i) >= first && text.charCodeAt(i) <= last;
  let end = at + 2;
  switch (text.charAt(at + 1)) {
    case "[":
      while (within(end, 0x30, 0x3f)) end++;
      while (within(end, 0x20, 0x2f)) end++;
      return within(end, 0x40, 0x7e) ? end + 1 : at + 2;
    case "]":
      while (end < text.length && !within(end, 0x07, 0x07) && !within(end, 0x1b, 0x1b)) end++;
      if (within(end, 0x07, 0x07)) return end + 1;
      return text.startsWith("\u001b\\", end) ? end + 2 : at + 2;
  }
  return within(at + 1, 0x40, 0x5f) ? at + 2 : at;
}

export function clock(time) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return "";
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString([], today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

// place describes where a call runs. The default sandbox is named without a profile.
export function place(where) {
  if (!where || where === "host") return "on the host";
  if (where === "own container") return "in a container of its own";
  return where === "sandbox" ? "in the sandbox" : "in sandbox " + where;
}
