// The texts of the console, and the forms of numbers and times in the reader's language and zone.

import { revealed as nodes } from "./dom.js";
import { texts } from "../texts.js";
import { html } from "./ui.js";

// t is a text by its name, "room.key", with {names} filled.
export function t(name, values = {}) {
  const [room, key] = name.split(".");
  const text = texts[room]?.[key];
  if (text === undefined) throw new Error("no text " + name);
  return text.replace(/\{(\w+)\}/g, (whole, key) => (key in values ? String(values[key]) : whole));
}

// n is t with one text for 1 and another for other numbers: {one} and {other} of the key.
export function n(name, count, values = {}) {
  return t(name + (count === 1 ? "One" : "Other"), { count: number(count), ...values });
}

export const number = (x) => Number(x ?? 0).toLocaleString();

const units = ["B", "kB", "MB", "GB", "TB"];
export function bytes(x) {
  let unit = 0;
  for (; x >= 1000 && unit < units.length - 1; unit++) x /= 1000;
  return (unit && x < 10 ? x.toFixed(1) : Math.round(x)).toLocaleString() + " " + units[unit];
}

export const money = (usd) => usd == null ? t("shell.unpriced") : "$" + Number(usd).toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: usd > 0 && usd < 0.01 ? 4 : 2 });

// time is a time in the reader's zone: of today its clock alone.
export function time(value) {
  const date = new Date(value);
  if (!value || Number.isNaN(date.getTime()) || date.getFullYear() < 1971) return "";
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(undefined, today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

// revealed shows a text of others, with every invisible character made visible.
export const revealed = (text) => nodes(String(text ?? "")).map((x) => (typeof x === "string" ? x : html`<span class="char" title=${x.title}>${x.textContent}</span>`));
