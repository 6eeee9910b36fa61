// A small Markdown renderer that builds nodes and knows no HTML: paragraphs, headings, lists, quotes, tables, rules,
// fenced code, and inline code, bold, italic, struck text and links. Images become links, so that a text cannot make
// the browser fetch anything. Everything else stays as it was written.
//
// There is no regular expression here: the text is untrusted, and each character is read a bounded number of times.

import { el, isSpace } from "./dom.js";

const longest = 20000; // characters of one paragraph that are looked at for inline marks
const deepest = 6;

// markdown returns a fragment for text.
export function markdown(text) {
  const out = document.createDocumentFragment();
  blocks(out, text.replaceAll("\r\n", "\n").replaceAll("\r", "\n").split("\n"), 0);
  return out;
}

// run is the end of a run of one character.
function run(text, at, char) {
  while (text.startsWith(char, at)) at++;
  return at;
}

// lead is where a line begins behind at most three spaces; -1 if there are more.
function lead(line) {
  const at = run(line.slice(0, 4), 0, " ");
  return at > 3 ? -1 : at;
}

// fence reads the line that opens fenced code.
function fence(line) {
  const at = lead(line);
  const mark = at < 0 ? "" : line.charAt(at);
  if (mark !== "`" && mark !== "~") return null;
  const end = run(line, at, mark);
  const info = line.slice(end).trim();
  if (end - at < 3 || info.includes("`")) return null;
  return { mark, size: end - at, language: info.slice(0, firstSpace(info)) };
}

function closes(line, { mark, size }) {
  const at = lead(line);
  if (at < 0) return false;
  const end = run(line, at, mark);
  return end - at >= size && line.slice(end).trim() === "";
}

function firstSpace(text) {
  let at = 0;
  while (at < text.length && !isSpace(text.charCodeAt(at))) at++;
  return at;
}

function heading(line) {
  const at = lead(line);
  if (at < 0) return null;
  const end = run(line.slice(0, at + 7), at, "#");
  if (end === at || end - at > 6 || !isSpace(line.charCodeAt(end))) return null;
  const text = line.slice(end).trim();
  let last = text.length;
  while (text.charCodeAt(last - 1) === 0x23) last--;
  return { level: end - at, text: text.slice(0, last).trimEnd() };
}

// rule is a line of at least three marks of one kind and spaces.
function rule(line) {
  const start = lead(line);
  const mark = start < 0 ? "" : line.charAt(start);
  if (mark === "" || !"-*_".includes(mark)) return false;
  let marks = 0;
  for (let at = start; at < line.length; at++) {
    const code = line.charCodeAt(at);
    if (code === mark.charCodeAt(0)) marks++;
    else if (!isSpace(code)) return false;
  }
  return marks >= 3;
}

// quote is what follows the mark of a quoted line; null for others.
function quote(line) {
  const at = lead(line);
  if (at < 0 || !line.startsWith(">", at)) return null;
  return line.slice(line.startsWith(" ", at + 1) ? at + 2 : at + 1);
}

const digit = (code) => code >= 0x30 && code <= 0x39;

// item reads a line that begins an item of a list.
function item(line) {
  const indent = line.length - line.trimStart().length;
  let at = indent;
  while (at - indent < 9 && digit(line.charCodeAt(at))) at++;
  const ordered = at > indent;
  const mark = line.charAt(at);
  if (mark === "" || !(ordered ? ".)" : "-*+").includes(mark) || !isSpace(line.charCodeAt(at + 1))) return null;
  const text = line.slice(at + 1).trimStart();
  return { indent, ordered, number: ordered ? parseInt(line.slice(indent, at), 10) : 0, inset: line.length - text.length, text };
}

// cells are the texts between the bars of a line.
function cells(line) {
  let text = line.trim();
  if (text.startsWith("|")) text = text.slice(1);
  if (text.endsWith("|")) text = text.slice(0, -1);
  return text.split("|").map((c) => c.trim());
}

// divider is the line below the head of a table.
function divider(line) {
  return cells(line).every((c) => {
    const at = c.startsWith(":") ? 1 : 0;
    const end = run(c, at, "-");
    return end > at && (end === c.length || end === c.length - 1 && c.endsWith(":"));
  });
}

function blocks(out, lines, depth) {
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    let m;
    if (!line.trim()) {
      i++;
    } else if ((m = fence(line))) {
      i = codeBlock(out, lines, i, m);
    } else if ((m = heading(line))) {
      const node = el("h" + Math.min(m.level + 2, 6));
      inline(node, m.text, 0);
      out.append(node);
      i++;
    } else if (rule(line)) {
      out.append(el("hr"));
      i++;
    } else if (depth < deepest && quote(line) !== null) {
      const inner = [];
      while (i < lines.length && (m = quote(lines[i])) !== null) {
        inner.push(m);
        i++;
      }
      const node = el("blockquote");
      blocks(node, inner, depth + 1);
      out.append(node);
    } else if (depth < deepest && item(line)) {
      i = list(out, lines, i, depth);
    } else if (line.includes("|") && i + 1 < lines.length && divider(lines[i + 1])) {
      i = table(out, lines, i);
    } else {
      i = paragraph(out, lines, i, depth);
    }
  }
}

function paragraph(out, lines, start, depth) {
  let i = start + 1;
  const starts = (l) => !l.trim() || fence(l) || heading(l) || rule(l) || (depth < deepest && (quote(l) !== null || item(l)));
  while (i < lines.length && !starts(lines[i])) i++;
  const node = el("p");
  inline(node, lines.slice(start, i).map((l) => l.trim()).join("\n"), 0);
  out.append(node);
  return i;
}

function codeBlock(out, lines, start, m) {
  let i = start + 1;
  const body = [];
  while (i < lines.length && !closes(lines[i], m)) body.push(lines[i++]);
  const text = body.join("\n");
  const copy = el("button", { type: "button", class: "copy", onclick: () => copyText(copy, text) }, "Copy");
  out.append(el("figure", { class: "code" },
    el("figcaption", {}, el("span", {}, m.language || "text"), copy),
    el("pre", { tabindex: "0" }, el("code", {}, text))));
  return i + 1;
}

async function copyText(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

// list reads the items of one list; lines that are indented further belong to the item above.
function list(out, lines, start, depth) {
  const { indent, ordered, number } = item(lines[start]);
  const node = el(ordered ? "ol" : "ul", { start: ordered && number !== 1 && number });
  let i = start;
  while (i < lines.length) {
    const m = item(lines[i]);
    if (!m || m.indent > indent + 1 || m.indent < indent || m.ordered !== ordered) break;
    const inner = [m.text];
    i++;
    while (i < lines.length) {
      const blank = !lines[i].trim();
      if (blank && !(i + 1 < lines.length && isSpace(lines[i + 1].charCodeAt(0)) && lines[i + 1].trim())) break;
      const spaces = lines[i].length - lines[i].trimStart().length;
      if (!blank && spaces <= indent) break;
      inner.push(lines[i].slice(Math.min(m.inset, spaces)));
      i++;
    }
    const li = el("li");
    if (inner.length === 1) inline(li, inner[0], 0);
    else blocks(li, inner, depth + 1);
    if (li.children.length && li.firstChild.nodeName === "P" && !inner.includes("")) li.firstChild.replaceWith(...li.firstChild.childNodes);
    node.append(li);
    while (i + 1 < lines.length && !lines[i].trim() && item(lines[i + 1])?.indent === indent) i++;
  }
  out.append(node);
  return i;
}

function table(out, lines, start) {
  const row = (tag, line) => el("tr", {}, cells(line).map((c) => {
    const cell = el(tag);
    inline(cell, c, 0);
    return cell;
  }));
  const body = el("tbody");
  let i = start + 2;
  while (i < lines.length && lines[i].includes("|") && lines[i].trim()) body.append(row("td", lines[i++]));
  out.append(el("div", { class: "table", tabindex: "0" }, el("table", {}, el("thead", {}, row("th", lines[start])), body)));
  return i;
}

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

function inline(out, text, depth) {
  if (text.length > longest || depth > deepest) {
    out.append(text);
    return;
  }
  let from = 0;
  for (let at = 0; at < text.length;) {
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
