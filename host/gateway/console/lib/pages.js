// Long lists: the first part, more when asked for, and what is new when something changes.

import { get } from "./api.js";
import { inTurn, watch } from "./live.js";
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
    const show = (next) => { if (current) state.value = next; };
    const fresh = inTurn(async () => {
      try {
        const first = await get(path);
        show(joined(first, state.value, keyOf));
      } catch (error) {
        show({ ...state.value, error, loading: false });
      }
    });
    more.value = async () => {
      const part = await get(withCursor(path, state.value.next));
      const known = new Set(state.value.items.map(keyOf));
      show({ ...state.value, items: [...state.value.items, ...part.items.filter((x) => !known.has(keyOf(x)))], next: part.next, asked: true });
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

const most = 2000; // items that are kept while new ones come

// joined puts a fresh first part before what the person asked for behind it. Where there is a gap in between, or too much, only the first
// part stays.
function joined(first, before, keyOf) {
  const last = first.items.at(-1);
  const at = before.asked && first.next && last ? before.items.findIndex((x) => keyOf(x) === keyOf(last)) : -1;
  const rest = at < 0 ? [] : before.items.slice(at + 1);
  if (!rest.length || rest.length > most) return { ...first, loading: false };
  return { ...before, items: [...first.items, ...rest], loading: false, error: undefined };
}

// Pages shows a list of usePages as a table.
export function Pages({ of, empty, ...table }) {
  if (of.loading) return html`<p class="small" role="status">${t("shell.loading")}</p>`;
  return html`${of.error && html`<${Notice} kind="bad">${of.error.message}<//>`}
    ${of.items.length ? html`<${Table} ...${table} rows=${of.items} />` : html`<${Empty}>${of.next ? t("shell.notYet") : empty}<//>`}
    ${of.next && html`<p><${Button} does=${of.more}>${t("shell.more")}<//></p>`}`;
}
