// Values of forms by what is known about them: a key of flynn.toml, or a field of a plugin. Such a field has {type, form, enum, default, low,
// high, secret}; a draft is what stands in the form: a text, where nothing means that the value is not set.

import { Field } from "./parts.js";
import { t } from "./text.js";
import { html } from "./ui.js";

const lines = (text) => text.split("\n").map((line) => line.trim()).filter((line) => line);

const plain = (x) => typeof x === "string" && x !== "" && x === x.trim() && !x.includes("\n");

// draftOf is a value as it stands in the form. What lines cannot say stands there as JSON.
export function draftOf(field, value) {
  if (value === undefined || value === null) return "";
  if (field.type === "list" && Array.isArray(value) && value.every(plain) && !value[0]?.startsWith("[")) return value.join("\n");
  if (field.type === "map" && typeof value === "object" && Object.entries(value).every(([name, v]) => plain(name) && plain(v) && !name.includes("=") && !name.startsWith("{"))) {
    return Object.entries(value).map(([name, v]) => name + " = " + v).join("\n");
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// valueOf reads a draft: {value}, {unset} or {error}.
export function valueOf(field, draft) {
  if (draft === "") return { unset: true };
  switch (field.type) {
    case "boolean": return { value: draft === "true" };
    case "integer": {
      const digits = draft.trim().replaceAll("_", "");
      return /^[+-]?\d{1,15}$/.test(digits) ? { value: Number(digits) } : { error: t("fields.integer") };
    }
    case "number": return draft.trim() !== "" && Number.isFinite(Number(draft)) ? { value: Number(draft) } : { error: t("fields.number") };
    case "list": return draft.startsWith("[") ? parsed(draft, Array.isArray) : { value: lines(draft) };
    case "map": return draft.startsWith("{") ? parsed(draft, (v) => v && typeof v === "object") : pairs(draft);
    case "sandbox": return { value: draft === "true" ? true : draft === "false" ? false : draft };
    case "other": return /^[[{]/.test(draft) ? parsed(draft, () => true) : { value: draft };
  }
  return { value: draft };
}

function pairs(draft) {
  const value = {};
  for (const line of lines(draft)) {
    const at = line.indexOf("=");
    if (at < 1) return { error: t("fields.pair") };
    value[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return { value };
}

function parsed(draft, fits) {
  try {
    const value = JSON.parse(draft);
    if (fits(value)) return { value };
  } catch {
    // it is not finished yet
  }
  return { error: t("fields.json") };
}

// helpOf says what a field is for and what may stand in it.
function helpOf(field) {
  const range = field.low && field.high ? t("fields.range", field) : field.low ? t("fields.least", field) : field.high ? t("fields.most", field) : "";
  const form = { list: t("fields.lines"), map: t("fields.pairs"), sandbox: t("fields.sandbox") }[field.type]
    ?? { size: t("fields.size"), duration: t("fields.duration"), percent: t("fields.percent"), path: t("fields.path") }[field.form] ?? "";
  return [field.help, form, range, field.default && t("fields.default", { value: field.default })].filter(Boolean).join(" ");
}

// Value is the input for one value. A change gives the draft.
export function Value({ of: field, label, draft, change, error, ...rest }) {
  const common = { label, help: helpOf(field), error, value: draft, change, ...rest };
  const none = { value: "", title: field.required ? t("fields.choose") : field.default ? t("fields.unsetTo", { value: field.default }) : t("fields.unset") };
  if (field.secret) return html`<${Field} ...${common} kind="password" autocomplete="off" spellcheck=${false} />`;
  if (field.type === "boolean") return html`<${Field} ...${common} options=${[none, { value: "true", title: t("fields.yes") }, { value: "false", title: t("fields.no") }]} />`;
  if (field.enum?.length && field.type !== "list") {
    const known = field.enum.includes(draft) || draft === "" ? field.enum : [...field.enum, draft];
    return html`<${Field} ...${common} options=${[none, ...known.filter((o) => o !== "").map((o) => ({ value: o, title: o }))]} />`;
  }
  const many = field.type === "list" || field.type === "map" || draft.includes("\n") || field.long;
  return html`<${Field} ...${common} rows=${many ? Math.min(12, Math.max(2, draft.split("\n").length)) : undefined} placeholder=${field.default} spellcheck=${false}
    inputmode=${field.type === "integer" ? "numeric" : undefined} />`;
}
