// The keys of a section, or those that a search finds, one a row.

import { draftOf, Value, valueOf } from "../../lib/fields.js";
import { Badge, Button, Danger, Empty, Field, Section, Text } from "../../lib/parts.js";
import { n, t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { withDraft } from "./drafts.js";

const most = 120; // rows that are shown at once

export function Keys({ keys, section, table, drafts, problems, ask, open, readOnly }) {
  const words = useSignal("");
  const adding = useSignal([]); // elements of lists of tables that are not there yet
  const sought = words.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (k) => sought.every((w) => k.name.toLowerCase().includes(w) || (k.meaning ?? "").toLowerCase().includes(w));
  const inSection = (k) => (section ? k.key[0] === section && (!table || k.key[1] === table) : k.key.length === 1 && !["named", "tables"].includes(k.type));
  const there = (k) => !k.new || adding.value.some((element) => k.name.startsWith(element + "."));
  const found = keys.filter((k) => there(k) && (sought.length ? fits(k) : inSection(k)));
  const groups = Map.groupBy ? Map.groupBy(found.slice(0, most), tableOf) : grouped(found.slice(0, most));
  return html`<div class="search"><${Field} label=${t("settings.search")} kind="search" value=${words.value} change=${(v) => { words.value = v; }} /></div>
    ${found.length === 0 && html`<${Empty}>${sought.length ? t("settings.nothingFound") : t("settings.choose")}<//>`}
    ${[...groups].map(([table, rows]) => html`<${Section} key=${table} title=${table || t("settings.top")}>
      ${rows.map((k) => html`<${Key} key=${k.name} of=${k} drafts=${drafts} problems=${problems.value.filter((p) => p.key === k.name)} ask=${ask} open=${open} readOnly=${readOnly} adding=${adding} />`)}<//>`)}
    ${found.length > most && html`<p class="small">${n("settings.more", found.length - most)}</p>`}`;
}

function grouped(list) {
  const groups = new Map();
  for (const k of list) groups.set(tableOf(k), [...(groups.get(tableOf(k)) ?? []), k]);
  return groups;
}

// tableOf is the table of a key as flynn.toml has it.
const tableOf = (k) => (["named", "tables"].includes(k.type) ? k.name : k.name.slice(0, Math.max(0, k.name.length - last(k).length - 1)));
const last = (k) => {
  const key = k.key.at(-1);
  return k.name.endsWith(key) ? key : k.name.slice(k.name.length - JSON.stringify(key).length);
};

function Key({ of: k, drafts, problems, ask, open, readOnly, adding }) {
  if (k.type === "named") return html`<${Named} of=${k} ask=${ask} open=${open} readOnly=${readOnly} />`;
  if (k.type === "tables") return k.new ? null : html`<${Tables} of=${k} ask=${ask} readOnly=${readOnly} add=${() => { adding.value = [...adding.value, k.name + "[" + (k.value ?? 0) + "]"]; }} />`;
  const draft = drafts.value[k.name]?.draft ?? (k.set ? draftOf(k, k.value) : "");
  const changed = k.name in drafts.value;
  const change = (value) => { drafts.value = withDraft(drafts.value, k, value); };
  const wrong = changed && valueOf(k, draft).error;
  const meanwhile = changed && JSON.stringify(drafts.value[k.name].key.value) !== JSON.stringify(k.value);
  const said = problems.map((p) => p.problem + (p.next ? " (" + p.next + ")" : "")).join(" ");
  const field = { ...k, help: k.meaning, long: k.key.at(-1) === "system_prompt" };
  return html`<div class=${"setting" + (changed ? " changed" : "")} data-key=${k.name}>
    ${k.hidden ? html`<p><code>${k.key.at(-1)}</code> <${Badge} kind="warn">${t("settings.hidden")}<//></p>`
      : html`<${Value} of=${field} label=${last(k)} draft=${draft} change=${change} error=${wrong || said} readonly=${readOnly || undefined} disabled=${readOnly && (k.type === "boolean" || k.enum?.length) ? true : undefined} />`}
    <p class="setting-marks">
      ${changed ? html`<${Badge} kind="info">${t("settings.changed")}<//>` : k.set ? html`<${Badge}>${k.line ? t("settings.line", k) : t("settings.own")}<//>` : null}
      ${meanwhile && html`<${Badge} kind="warn">${t("settings.meanwhile")}<//> <${Text}>${draftOf(k, k.value) || t("fields.unset")}<//>`}
      ${k.runs !== undefined && html`<${Badge} kind="warn">${t("settings.runs", k)}<//>`}
      ${k.reference && html`<a href="#settings/secrets">${t("settings.reference")}</a>`}
      ${changed && html`<${Button} kind="quiet" does=${() => change(k.set ? draftOf(k, k.value) : "")} aria-label=${t("settings.backTo", { key: k.name })}>${t("settings.back")}<//>`}
      ${k.set && !changed && !readOnly && html`<${Button} kind="quiet" does=${() => { drafts.value = { ...drafts.value, [k.name]: { name: k.name, key: k, draft: "", unset: true } }; }} aria-label=${t("settings.unsetKey", { key: k.name })}>${t("settings.unsetIt")}<//>`}
    </p>
  </div>`;
}

// Tables is a list of tables: its elements are moved and removed here; the keys of a new one are shown below when it is added.
function Tables({ of: k, ask, readOnly, add }) {
  const count = k.value ?? 0;
  const at = (i) => [...k.key, "[" + i + "]"];
  return html`<div class="setting" data-key=${k.name}><p class="small">${k.meaning} ${n("settings.element", count)}</p>
    ${!readOnly && html`<ul class="lines">${Array.from({ length: count }, (_, i) => html`<li key=${i}><span class="name">${k.name}[${i}]</span>
        ${i > 0 && html`<${Button} kind="quiet" does=${() => ask({ changes: [{ key: at(i), move: i - 1 }] })} aria-label=${t("settings.upward", { table: k.name + "[" + i + "]" })}>↑<//>`}
        <${Danger} word=${t("settings.removeTable")} question=${t("settings.removeQuestion", { table: k.name + "[" + i + "]" })} does=${() => ask({ changes: [{ key: at(i), unset: true }] })}>${t("settings.removeTable")}<//></li>`)}</ul>
      <p><${Button} does=${add}>${t("settings.add")}<//></p>`}</div>`;
}

// Named are tables whose names the owner chooses.
function Named({ of: k, ask, open, readOnly }) {
  const name = useSignal("");
  const names = Array.isArray(k.value) ? k.value : [];
  const free = (k.names ?? []).filter((x) => !names.includes(x));
  return html`<div class="setting" data-key=${k.name}>
    <p class="small">${k.meaning}</p>
    ${names.length > 0 && html`<ul class="lines">${names.map((x) => html`<li key=${x}><span class="name"><${Text}>${x}<//></span>
      ${!readOnly && html`<${Danger} word=${t("settings.removeTable")} question=${t("settings.removeQuestion", { table: k.name + "." + x })} does=${() => ask({ changes: [{ key: [...k.key, x], unset: true }] })}>${t("settings.removeTable")}<//>`}</li>`)}</ul>`}
    ${k.key[0] === "channels" ? html`<p><a href="#channels/+new">${t("settings.addChannel")}</a></p>` : !readOnly && html`<div class="filters">
      <${Field} label=${t("settings.newName", { table: k.name })} value=${name.value} change=${(v) => { name.value = v; }} options=${free.length ? ["", ...free] : undefined} />
      <${Button} does=${() => { if (name.value) ask({ changes: [{ key: [...k.key, name.value], value: {} }] }); }}>${t("settings.add")}<//></div>`}
  </div>`;
}
