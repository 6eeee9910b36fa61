// Drafts of keys that are not saved yet: {name: {name, key, draft, unset}}.

import { draftOf, valueOf } from "../../lib/fields.js";

export const draftsOf = (drafts) => Object.values(drafts);

// withDraft adds a draft, or removes it when it says what the file says.
export function withDraft(drafts, key, draft) {
  const next = { ...drafts };
  if (draft === (key.set ? draftOf(key, key.value) : "")) delete next[key.name];
  else next[key.name] = { name: key.name, key, draft };
  return next;
}

// invalid reports whether a draft cannot be read.
export const invalid = (drafts) => draftsOf(drafts).some((d) => !d.unset && valueOf(d.key, d.draft).error);

// changesOf are the changes that the drafts ask of the API.
export function changesOf(drafts) {
  return [...added(drafts), ...draftsOf(drafts).filter((d) => !d.key.new).flatMap(({ key, draft, unset }) => {
    const { value, error, unset: none } = valueOf(key, draft ?? "");
    if (unset || none) return [{ key: key.key, unset: true }];
    if (error) return [];
    if (key.type === "map" && key.set) return entries(key, value);
    return [{ key: key.key, value }];
  })];
}

// added are the new elements of lists of tables, each as one table.
function added(drafts) {
  const lists = {};
  for (const { key, draft } of draftsOf(drafts).filter((d) => d.key.new)) {
    const { value, error, unset } = valueOf(key, draft ?? "");
    if (unset || error) continue;
    const at = key.key.findLastIndex((segment) => /^\[\d+\]$/.test(segment));
    const change = lists[key.key.slice(0, at).join("\n")] ??= { key: key.key.slice(0, at), add: true, value: {} };
    const last = key.key.at(-1);
    key.key.slice(at + 1, -1).reduce((table, name) => table[name] ??= {}, change.value)[last] = value;
  }
  return Object.values(lists);
}

// entries changes a table that is there name by name, so that its comments stay.
function entries(key, value) {
  const before = key.value ?? {};
  return [
    ...Object.keys(before).filter((name) => !(name in value)).map((name) => ({ key: [...key.key, name], unset: true })),
    ...Object.keys(value).filter((name) => before[name] !== value[name]).map((name) => ({ key: [...key.key, name], value: value[name] })),
  ];
}
