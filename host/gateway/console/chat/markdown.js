// A small Markdown renderer that builds nodes and knows no HTML: paragraphs, headings, lists, quotes, tables, rules,
// fenced code, and inline code, bold, italic, struck text and links. Images become links, so that a text cannot make
// the browser fetch anything. Everything else stays as it was written.
//
// There is no regular expression here: the text is untrusted, and each character is read a bounded number of times.

import { el as element, isSpace } from "../lib/dom.js";
import { t } from "../lib/text.js";
import { begin, deepest, digit, el, full, inline, run } from "./inline.js";

const tableName = t("shell.table");
const shown = 48000; // characters of one text; the rest is there on demand, as it was written

// markdown returns a fragment for text.
export function markdown(text) {
  begin();
  const out = document.createDocumentFragment();
  const end = text.length > shown ? text.lastIndexOf("\n", shown) + 1 || shown : text.length;
  blocks(out, text.slice(0, end).replaceAll("\r\n", "\n").replaceAll("\r", "\n").split("\n"), 0);
  if (end < text.length) out.append(rest(text.slice(end)));
  return out;
}

// rest holds a text that is shown when the person asks for it.
function rest(text) {
  const node = element("details", { class: "rest" }, element("summary", {}, "Show the rest as it was written (" + text.length.toLocaleString() + " characters)"));
  node.addEventListener("toggle", () => node.append(element("pre", {}, text)), { once: true });
  return node;
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
    if (full()) {
      out.append(rest(lines.slice(i).join("\n")));
      return;
    }
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
    if (full() || !m || m.indent > indent + 1 || m.indent < indent || m.ordered !== ordered) break;
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
  while (!full() && i < lines.length && lines[i].includes("|") && lines[i].trim()) body.append(row("td", lines[i++]));
  out.append(el("div", { class: "table", tabindex: "0", role: "group", "aria-label": tableName }, el("table", {}, el("thead", {}, row("th", lines[start])), body)));
  return i;
}
