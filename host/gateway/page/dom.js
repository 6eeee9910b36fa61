// Building DOM nodes. Nothing in this page ever parses HTML: text of agents, tools and people becomes text nodes.

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

// Characters that show as nothing or reorder what is around them, besides tab and newline.
const invisible = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

// revealed returns nodes for text in which no character can hide: what a person approves must be what runs.
export function revealed(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(invisible)) {
    nodes.push(text.slice(from, match.index));
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    nodes.push(el("span", { class: "char", title: "invisible character" }, "U+" + code));
    from = match.index + match[0].length;
  }
  nodes.push(text.slice(from));
  return nodes;
}

// plain cuts terminal control sequences out of a tool's output.
export function plain(text) {
  return text
    .replace(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-_]/g, "")
    .replace(/\r\n?/g, "\n");
}

export function clock(time) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return "";
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString([], today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}
