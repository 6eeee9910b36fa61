// Long lists: the first part, more when asked for, and what is new when something changes.

import { get } from "./api.js";
import { watch } from "./live.js";
import { Button, Empty, Notice, Table } from "./parts.js";
import { t } from "./text.js";
import { html, useEffect, useSignal } from "./ui.js";

// query is a path with those filters that are set.
export function query(path, filters) {
  const set = Object.entries(filters).filter(([, value]) => value !== "" && value !== false && value !== undefined);
  return set.length ? path + "?" + new URLSearchParams(set) : path;
}

const withCursor = (path, cursor) => path + (path.includes("?") ? "&" : "?") + "cursor=" + encodeURIComponent(cursor);

// usePages loads the list of a path and keeps it fresh. keyOf names an item; seconds is how often to look besides the events of the kinds.
export function usePages(path, keyOf, kinds, seconds = 0) {
  const state = useSignal({ items: [], loading: true });
  const more = useSignal(async () => {});
  useEffect(() => {
    let current = true;
    let under = false; // a request is under way,
    let due = false;   // and another one is due after it
    const show = (next) => { if (current) state.value = next; };
    const fresh = async () => {
      due = under;
      if (under) return;
      under = true;
      try {
        const first = await get(path);
        show(joined(first, state.value, keyOf));
      } catch (error) {
        show({ ...state.value, error, loading: false });
      }
      under = false;
      if (due && current) fresh();
    };
    more.value = async () => {
      const part = await get(withCursor(path, state.value.next));
      const known = new Set(state.value.items.map(keyOf));
      show({ ...state.value, items: [...state.value.items, ...part.items.filter((x) => !known.has(keyOf(x)))], next: part.next });
    };
    state.value = { items: [], loading: true };
    fresh();
    const end = watch(kinds, fresh);
    const timer = seconds ? setInterval(() => { if (document.visibilityState === "visible") fresh(); }, seconds * 1000) : 0;
    return () => {
      current = false;
      end();
      clearInterval(timer);
    };
  }, [path]);
  return { ...state.value, more: more.value };
}

// joined puts a fresh first part before what was loaded. Where there is a gap in between, only the first part stays.
function joined(first, before, keyOf) {
  const fresh = new Set(first.items.map(keyOf));
  const touches = before.items.some((x) => fresh.has(keyOf(x)));
  if (!touches) return { items: first.items, next: first.next, loading: false };
  return { items: [...first.items, ...before.items.filter((x) => !fresh.has(keyOf(x)))], next: before.next, loading: false };
}

// Pages shows a list of usePages as a table.
export function Pages({ of, empty, ...table }) {
  if (of.loading) return html`<p class="small" role="status">${t("shell.loading")}</p>`;
  return html`${of.error && html`<${Notice} kind="bad">${of.error.message}<//>`}
    ${of.items.length ? html`<${Table} ...${table} rows=${of.items} />` : html`<${Empty}>${of.next ? t("shell.notYet") : empty}<//>`}
    ${of.next && html`<p><${Button} does=${of.more}>${t("shell.more")}<//></p>`}`;
}
