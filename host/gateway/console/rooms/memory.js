// Memory: the notes that agents keep, where each is from, and how to correct or forget it.

import { at, get, send } from "../lib/api.js";
import { watch } from "../lib/live.js";
import { Badge, Button, Danger, Dialog, Empty, Field, Notice, Page, Source, Text, When } from "../lib/parts.js";
import { t, zone } from "../lib/text.js";
import { html, useEffect, useRef, useSignal } from "../lib/ui.js";

export function Room({ rest }) {
  const filter = useSignal({ q: "", agent: rest[0] === "agent" ? rest[1] ?? "" : "", person: "", key: "" });
  const set = (key) => (x) => { filter.value = { ...filter.value, [key]: x }; };
  return html`<${Page} title=${t("memory.title")} lead=${t("memory.lead", { zone: zone() })}>
    <div class="filters" role="search">${["q", "agent", "person", "key"].map((key) => html`<${Field} key=${key} label=${t("memory." + key)} value=${filter.value[key]} change=${set(key)} maxlength="256" />`)}</div>
    <${Notes} key=${JSON.stringify(filter.value)} filter=${filter.value} />
  <//>`;
}

const pause = 200; // milliseconds that a person may take between two letters

// Notes are the pages that were asked for, below each other.
function Notes({ filter }) {
  const list = useSignal(null);
  const next = useSignal("");
  const trouble = useSignal("");
  const held = useRef({ open: false, late: false }); // a list with a note that is being corrected stays, and catches up afterwards
  const load = async (cursor) => {
    const query = Object.entries({ ...filter, cursor, limit: 50 }).filter(([, x]) => x).map(([key, x]) => key + "=" + encodeURIComponent(x)).join("&");
    const page = await get("/memory/notes?" + query);
    list.value = cursor ? [...list.value, ...page.items] : page.items;
    next.value = page.next ?? "";
    trouble.value = "";
  };
  const first = () => load("").catch((error) => { trouble.value = error.message; });
  const hold = (open) => {
    const { late } = held.current;
    held.current = { open, late: open && late };
    if (!open && late) first();
  };
  useEffect(() => {
    const timer = setTimeout(first, pause);
    const end = watch(["memory"], () => { if (held.current.open) held.current.late = true; else return first(); });
    return () => { clearTimeout(timer); end(); };
  }, []);
  const put = (note) => { list.value = list.value.map((n) => (n.id === note.id ? note : n)); };
  const drop = (id) => { list.value = list.value.filter((n) => n.id !== id); };
  if (trouble.value) return html`<${Notice} kind="bad">${trouble.value}<//>`;
  if (list.value === null) return html`<p class="small" role="status">${t("shell.loading")}</p>`;
  if (!list.value.length) return html`<${Empty}>${t("memory.none")}<//>`;
  return html`<ul class="lines notes">${list.value.map((n) => html`<${Note} key=${n.id} of=${n} put=${put} drop=${drop} hold=${hold} />`)}</ul>
    ${next.value && html`<p><${Button} does=${() => load(next.value)}>${t("memory.more")}<//></p>`}`;
}

function Note({ of: n, put, drop, hold }) {
  const open = useSignal(false);
  const correct = (on) => { open.value = on; hold(on); };
  return html`<li class="note">
    <div class="note-head"><b><${Text}>${n.key}<//></b> <${Badge}><${Text}>${n.agent}<//><//> ${n.person ? html`<${Badge} kind="info"><${Text}>${n.person}<//><//>` : html`<${Badge}>${t("memory.shared")}<//>`}</div>
    <div class="note-text"><${Text}>${n.text}<//></div>
    <p class="small">${t("memory.from")} <${Text}>${n.by}<//> · <${When} at=${n.updated} />
      ${n.turn && html` · <a href=${"#timeline/turn/" + encodeURIComponent(n.turn)}>${t("memory.turn")}</a>`}
      ${n.labels?.length > 0 && html` · ${t("memory.labels")} <${Text}>${n.labels.join(", ")}<//>`}
      ${n.mended && html` · ${t("memory.mended")} <${Text}>${n.mended_by}<//> <${When} at=${n.mended} />`}</p>
    <div class="actions"><${Button} kind="quiet" does=${() => correct(true)} aria-label=${t("memory.mendOf", { key: n.key })}>${t("memory.mend")}<//>
      <${Danger} word=${t("memory.forget")} question=${t("memory.forgetQuestion")} aria-label=${t("memory.forgetOf", { key: n.key })}
        does=${async () => { await send("POST", "/memory/forget", { ids: [n.id] }); drop(n.id); }}>${t("memory.forget")}<//></div>
    ${open.value && html`<${Mend} of=${n} put=${put} close=${() => correct(false)} />`}
  </li>`;
}

function Mend({ of: n, put, close }) {
  const text = useSignal(n.text);
  const save = async () => {
    put(await send("PATCH", at`/memory/notes/${n.id}`, { was: n.text, text: text.value }));
    close();
  };
  return html`<${Dialog} title=${t("memory.mendTitle")} close=${close} wide actions=${html`<${Button} kind="main" does=${save}>${t("memory.save")}<//>`}>
    <p class="small">${t("memory.mendLead")}</p>
    <details><summary>${t("memory.was")}</summary><${Source} label=${t("memory.was")}>${n.text}<//></details>
    <${Field} label=${t("memory.text")} rows=${8} value=${text.value} change=${(x) => { text.value = x; }} maxlength="16384" /><//>`;
}
