// The marks inside a line of Markdown: code, bold, italic, struck text and links.

import { el as element, isSpace } from "../lib/dom.js";

const longest = 20000; // characters of one paragraph that are looked at for marks
export const deepest = 6;
const most = 1500; // elements of one text

let left; // elements that the text which is being rendered may still have

export function begin() { left = most; }
export const full = () => left <= 0;

export function el(...args) {
  left--;
  return element(...args);
}

// run is the end of a run of one character.
export function run(text, at, char) {
  while (text.startsWith(char, at)) at++;
  return at;
}

export const digit = (code) => code >= 0x30 && code <= 0x39;
const word = (code) => digit(code) || code >= 0x41 && code <= 0x5a || code >= 0x61 && code <= 0x7a || code === 0x5f;

// until is the next place of one of the characters in stops, or of a space where spaces stop too; it reads no more than most characters.
function until(text, at, stops, most, spaces = false) {
  const end = Math.min(text.length, at + most);
  while (at < end && !stops.includes(text.charAt(at)) && !(spaces && isSpace(text.charCodeAt(at)))) at++;
  return at;
}

// code reads `code`, with as many ticks behind it as before.
function code(text, at) {
  const open = run(text, at, "`");
  if (open - at > 3) return { end: open };
  for (let i = open; (i = text.indexOf("`", i)) >= 0 && i - open < 2000;) {
    const end = run(text, i, "`");
    if (end - i === open - at) {
      const inner = text.slice(open, i);
      return { end, node: el("code", {}, open - at > 1 ? inner.trim() : inner) };
    }
    i = end;
  }
  return { end: open };
}

// anchor reads [label](address); the address may have one pair of brackets.
function anchor(text, at, depth) {
  const start = text.startsWith("!", at) ? at + 2 : at + 1;
  const close = until(text, start, "[]\n", 500);
  if (!text.startsWith("](", close)) return null;
  const from = close + 2;
  let end = until(text, from, "()", 2000, true);
  if (end > from && text.startsWith("(", end)) {
    const inner = until(text, end + 1, "()", 200, true);
    if (!text.startsWith(")", inner)) return null;
    end = until(text, inner + 1, "()", 200, true);
  }
  if (end === from || !text.startsWith(")", end)) return null;
  const out = document.createDocumentFragment();
  link(out, text.slice(start, close), text.slice(from, end), text.slice(at, end + 1), depth);
  return { end: end + 1, node: out };
}

// bare reads an address without a label.
function bare(text, at) {
  const scheme = ["http://", "https://"].find((s) => text.startsWith(s, at));
  if (!scheme || at > 0 && word(text.charCodeAt(at - 1))) return null;
  let end = until(text, at + scheme.length, "<>()[]\"'`", 2000, true);
  if (end === at + scheme.length) return null;
  while (".,;:!?".includes(text.charAt(end - 1))) end--;
  const url = text.slice(at, end);
  const out = document.createDocumentFragment();
  link(out, url, url, url, deepest);
  return { end, node: out };
}

// marked reads text between two marks: on one line unless it is bold, and not beginning with a space.
function marked(text, at, mark, tag, depth) {
  const from = at + mark.length;
  const first = text.charCodeAt(from);
  if (Number.isNaN(first) || isSpace(first) || text.startsWith(mark[0], from)) return null;
  let end;
  if (tag === "strong") {
    end = text.indexOf(mark, from + 1);
    if (end < 0 || end - from > 2000) return null;
  } else {
    end = until(text, from, mark[0] + "\n", 1001);
    if (!text.startsWith(mark, end)) return null;
  }
  const after = end + mark.length;
  if (tag === "em") {
    const outside = (i) => !(i >= 0 && i < text.length && (word(text.charCodeAt(i)) || text.startsWith(mark, i)));
    if (!outside(at - 1) || !outside(after)) return null;
  }
  const node = el(tag);
  inline(node, text.slice(from, end), depth + 1);
  return { end: after, node };
}

// read returns what begins at a place: where it ends and its node. Without a node it is plain text; null is no mark.
function read(text, at, depth) {
  switch (text.charAt(at)) {
    case "`": return code(text, at);
    case "!": return text.startsWith("[", at + 1) ? anchor(text, at, depth) : null;
    case "[": return anchor(text, at, depth);
    case "*": return text.startsWith("**", at) ? marked(text, at, "**", "strong", depth) : marked(text, at, "*", "em", depth);
    case "_": return marked(text, at, "_", "em", depth);
    case "~": return text.startsWith("~~", at) ? marked(text, at, "~~", "s", depth) : null;
    case "h": return bare(text, at);
    case "\\": {
      const next = text.charAt(at + 1);
      return next && "\\`*_~[]#|-".includes(next) ? { end: at + 2, node: next } : null;
    }
  }
  return null;
}

export function inline(out, text, depth) {
  if (text.length > longest || depth > deepest) {
    out.append(text);
    return;
  }
  let from = 0;
  for (let at = 0; at < text.length && !full();) {
    const found = read(text, at, depth);
    if (found?.node) {
      out.append(text.slice(from, at), found.node);
      from = found.end;
    }
    at = found ? found.end : at + 1;
  }
  out.append(text.slice(from));
}

// link makes an anchor for http and https alone; anything else stays as it was written.
function link(out, label, address, source, depth) {
  let url;
  try {
    url = new URL(address);
  } catch {
    out.append(source);
    return;
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    out.append(source);
    return;
  }
  const node = el("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank", title: url.href });
  if (depth >= deepest) node.append(label);
  else inline(node, label || url.href, deepest);
  out.append(node);
}
