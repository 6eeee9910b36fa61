// A small Markdown renderer that builds nodes and knows no HTML: paragraphs, headings, lists, quotes, tables, rules,
// fenced code, and inline code, bold, italic, struck text and links. Images become links, so that a text cannot make
// the browser fetch anything. What it does not know stays as it was written.

import { el } from "./dom.js";

const longest = 20000; // characters of one paragraph that are looked at for inline marks
const deepest = 6;

// markdown returns a fragment for text.
export function markdown(text) {
  const out = document.createDocumentFragment();
  blocks(out, text.replace(/\r\n?/g, "\n").split("\n"), 0);
  return out;
}

const fence = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const rule = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const quote = /^ {0,3}> ?/;
const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const divider = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

function blocks(out, lines, depth) {
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    let m;
    if (!line.trim()) {
      i++;
    } else if ((m = fence.exec(line))) {
      i = codeBlock(out, lines, i, m);
    } else if ((m = heading.exec(line))) {
      const node = el("h" + Math.min(m[1].length + 2, 6));
      inline(node, m[2], 0);
      out.append(node);
      i++;
    } else if (rule.test(line)) {
      out.append(el("hr"));
      i++;
    } else if (quote.test(line) && depth < deepest) {
      const inner = [];
      while (i < lines.length && quote.test(lines[i])) inner.push(lines[i++].replace(quote, ""));
      const node = el("blockquote");
      blocks(node, inner, depth + 1);
      out.append(node);
    } else if (item.test(line) && depth < deepest) {
      i = list(out, lines, i, depth);
    } else if (line.includes("|") && i + 1 < lines.length && lines[i + 1].includes("-") && divider.test(lines[i + 1])) {
      i = table(out, lines, i);
    } else {
      i = paragraph(out, lines, i, depth);
    }
  }
}

function paragraph(out, lines, start, depth) {
  let i = start + 1;
  const starts = (l) => !l.trim() || fence.test(l) || heading.test(l) || rule.test(l) ||
    (depth < deepest && (quote.test(l) || item.test(l)));
  while (i < lines.length && !starts(lines[i])) i++;
  const node = el("p");
  inline(node, lines.slice(start, i).map((l) => l.trim()).join("\n"), 0);
  out.append(node);
  return i;
}

function codeBlock(out, lines, start, m) {
  const closing = new RegExp("^ {0,3}" + m[1][0] + "{" + m[1].length + ",}\\s*$");
  let i = start + 1;
  const body = [];
  while (i < lines.length && !closing.test(lines[i])) body.push(lines[i++]);
  const text = body.join("\n");
  const copy = el("button", { type: "button", class: "copy", onclick: () => copyText(copy, text) }, "Copy");
  out.append(el("figure", { class: "code" },
    el("figcaption", {}, el("span", {}, m[2] || "text"), copy),
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
  const [, indent, mark] = item.exec(lines[start]);
  const ordered = /\d/.test(mark);
  const node = el(ordered ? "ol" : "ul", { start: ordered && parseInt(mark, 10) !== 1 && parseInt(mark, 10) });
  let i = start;
  while (i < lines.length) {
    const m = item.exec(lines[i]);
    if (!m || m[1].length > indent.length + 1 || m[1].length < indent.length || /\d/.test(m[2]) !== ordered) break;
    const inner = [m[3]];
    const inset = m[0].length - m[3].length;
    i++;
    while (i < lines.length) {
      const blank = !lines[i].trim();
      if (blank && !(i + 1 < lines.length && /^\s/.test(lines[i + 1]) && lines[i + 1].trim())) break;
      const spaces = lines[i].length - lines[i].trimStart().length;
      if (!blank && spaces <= indent.length) break;
      inner.push(lines[i].slice(Math.min(inset, spaces)));
      i++;
    }
    const li = el("li");
    if (inner.length === 1) inline(li, inner[0], 0);
    else blocks(li, inner, depth + 1);
    if (li.children.length && li.firstChild.nodeName === "P" && !inner.includes("")) li.firstChild.replaceWith(...li.firstChild.childNodes);
    node.append(li);
    while (i + 1 < lines.length && !lines[i].trim() && item.test(lines[i + 1]) && item.exec(lines[i + 1])[1].length === indent.length) i++;
  }
  out.append(node);
  return i;
}

function table(out, lines, start) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((c) => c.trim());
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

// Every repetition is bounded, so that no text makes the expression slow.
const marks = new RegExp([
  "(?<ticks>`{1,3})(?<code>[^`](?:[^`]|`(?!`)){0,2000}?)\\k<ticks>(?!`)",
  "!?\\[(?<label>[^\\[\\]\\n]{0,500})\\]\\((?<url>[^()\\s]{1,2000}(?:\\([^()\\s]{0,200}\\)[^()\\s]{0,200})?)\\)",
  "\\*\\*(?<bold>[^\\s*](?:[^*]|\\*(?!\\*)){0,2000}?)\\*\\*",
  "(?<![\\w*])\\*(?<em>[^\\s*][^*\\n]{0,1000}?)\\*(?![\\w*])",
  "(?<![\\w_])_(?<em2>[^\\s_][^_\\n]{0,1000}?)_(?![\\w_])",
  "~~(?<struck>[^\\s~][^~\\n]{0,1000}?)~~",
  "(?<bare>\\bhttps?:\\/\\/[^\\s<>()\\[\\]\"'`]{1,2000})",
  "\\\\(?<escaped>[\\\\`*_~\\[\\]#|-])",
].join("|"), "g");

function inline(out, text, depth) {
  if (text.length > longest || depth > deepest) {
    out.append(text);
    return;
  }
  let from = 0;
  for (const m of text.matchAll(marks)) {
    out.append(text.slice(from, m.index));
    from = m.index + m[0].length;
    const g = m.groups;
    if (g.code !== undefined) out.append(el("code", {}, g.ticks.length > 1 ? g.code.trim() : g.code));
    else if (g.url !== undefined) link(out, g.label, g.url, m[0], depth);
    else if (g.bold !== undefined) wrap(out, "strong", g.bold, depth);
    else if (g.em !== undefined || g.em2 !== undefined) wrap(out, "em", g.em ?? g.em2, depth);
    else if (g.struck !== undefined) wrap(out, "s", g.struck, depth);
    else if (g.escaped !== undefined) out.append(g.escaped);
    else {
      const tail = /[.,;:!?]*$/.exec(g.bare)[0];
      const url = g.bare.slice(0, g.bare.length - tail.length);
      link(out, url, url, url, deepest);
      out.append(tail);
    }
  }
  out.append(text.slice(from));
}

function wrap(out, tag, text, depth) {
  const node = el(tag);
  inline(node, text, depth + 1);
  out.append(node);
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
