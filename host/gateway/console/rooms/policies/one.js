// One policy: its state, a module dropped on it, what it decided, its versions, source, cases and shadow.

import { at, send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Badge, Button, Danger, Empty, Facts, Loaded, Notice, Page, Section, Source, Table, Tabs, Text, When } from "../../lib/parts.js";
import { n, number, t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { digest, State } from "../policies.js";
import { Report } from "./cases.js";
import { Decisions } from "./decisions.js";
import { Difference, Replay } from "./replay.js";

export function Policy({ name }) {
  const one = useLive(at`/policies/${name}`, "policies", "configuration");
  const part = useSignal("decisions");
  const p = one.value;
  const parts = [["decisions", t("policies.decisions")], ["replay", t("policies.replay")], ["versions", t("policies.versions")],
    ...(p?.has_source ? [["source", t("policies.source")], ["cases", t("policies.cases")]] : []), ...(p?.shadow ? [["shadow", t("policies.shadow")]] : [])];
  return html`<${Page} title=${t("policies.one", { name })}>
    <${Loaded} of=${one}>${(p) => html`<${Standing} of=${p} again=${one.again} />`}<//>
    ${p && html`<${Section} title=${parts.find(([key]) => key === part.value)[1]} actions=${html`<${Tabs} label=${t("policies.parts")} of=${parts} now=${part.value} choose=${(key) => { part.value = key; }} />`}>
      ${part.value === "decisions" && html`<${Decisions} policy=${name} />`}
      ${part.value === "replay" && html`<${Replay} name=${name} />`}
      ${part.value === "versions" && html`<${Versions} of=${p} again=${one.again} />`}
      ${part.value === "source" && html`<${Files} name=${name} />`}
      ${part.value === "cases" && html`<${Cases} name=${name} />`}
      ${part.value === "shadow" && html`<${Shadow} name=${name} />`}
    <//>`}
  <//>`;
}

function Standing({ of: p, again }) {
  return html`${p.detail && html`<${Notice} kind=${p.ok ? "info" : "bad"}><${Text}>${p.detail}<//><//>`}
    ${p.pinned && html`<p><${Button} does=${async () => { await send("POST", at`/policies/${p.name}/rollback`, { clear: true }); again(); }}>${t("policies.unpin")}<//></p>`}
    <p><${Danger} word=${t(p.shadow ? "policies.unshadow" : "policies.makeShadow")} question=${t(p.shadow ? "policies.unshadowSure" : "policies.shadowSure", p)}
      does=${async () => { await send("PATCH", at`/policies/${p.name}`, { shadow: !p.shadow }); again(); }}>${t(p.shadow ? "policies.unshadow" : "policies.makeShadow")}<//></p>
    <${Facts} of=${[
      [t("policies.state"), html`<${State} of=${p} />`],
      [t("policies.kinds"), (p.kinds ?? []).join(", ")],
      [t("policies.since"), html`<${When} at=${p.since} />`],
      [t("policies.version"), p.version && html`<${Text}>${p.version}<//>`],
      [t("policies.module"), p.file && html`<code>${p.file}</code>`],
      [t("policies.path"), p.path && html`<${Text}>${p.path}<//>`],
      [t("policies.asked"), n("policies.count", p.decisions, { failures: number(p.failures) })],
      [t("policies.fuel"), p.fuel_limit && t("policies.fuelOf", { each: number(Math.round((p.fuel_total ?? 0) / Math.max(p.decisions, 1))), max: number(p.fuel_max), limit: number(p.fuel_limit) })],
      [t("policies.isolation"), p.isolation],
      [t("policies.onlyAgents"), p.agents && html`<${Text}>${p.agents.join(", ")}<//>`],
      [t("policies.onlyChannels"), p.channels && html`<${Text}>${p.channels.join(", ")}<//>`],
      [t("policies.shadowOf"), p.shadow && (p.shadow_of || t("policies.wholeChain"))],
      [t("policies.onError"), p.dangerously_allow_on_error && html`<${Badge} kind="bad">${t("policies.passes")}<//>`],
    ]} />`;
}

function Versions({ of: p, again }) {
  const back = (file) => async () => { await send("POST", at`/policies/${p.name}/rollback`, { to: file }); again(); };
  const seen = new Set([p.file, "", undefined]);
  const rows = p.versions.map((v) => {
    const last = !seen.has(v.now_file);
    seen.add(v.now_file);
    return { ...v, last }; // the latest row of a module has the button
  });
  return html`<${Table} caption=${t("policies.versions")} rows=${rows} keyOf=${(v) => v.id} empty=${t("policies.noVersions")} columns=${[
    { title: t("policies.when"), cell: (v) => html`<${When} at=${v.at} />` },
    { title: t("policies.happened"), cell: (v) => html`<${Badge} kind=${/refused|reverted|failed/.test(v.outcome) ? "bad" : ""}>${v.outcome}<//> ${v.reason && html`<div class="small"><${Text}>${v.reason}<//></div>`}` },
    { title: t("policies.version"), cell: (v) => html`<${Text}>${v.version ?? ""}<//> <code>${digest(v.file)}</code>` },
    { title: t("policies.inForce"), cell: (v) => html`<code>${digest(v.now_file)}</code>` },
    { title: t("policies.author"), cell: (v) => html`<${Text}>${v.by}<//>` },
    { title: t("shell.actions"), cell: (v) => v.last && html`<${Danger} word=${t("policies.rollback")} question=${t("policies.sure", { name: p.name, file: digest(v.now_file) })} does=${back(v.now_file)}>${t("policies.rollback")}<//>` },
  ]} />`;
}

function Files({ name }) {
  const files = useLive(at`/policies/${name}/source`, "policies");
  return html`<${Loaded} of=${files}>${(list) => list.map((f) => html`<details key=${f.name}><summary><${Text}>${f.name}<//></summary>
    <${Source} label=${f.name}>${f.text}<//>${f.cut && html`<p class="small">${t("policies.cut")}</p>`}</details>`)}<//>`;
}

function Cases({ name }) {
  const report = useSignal(null);
  return html`<p><${Button} kind="main" does=${async () => { report.value = await send("POST", at`/policies/${name}/cases`); }}>${t("policies.runCases")}<//></p>
    ${report.value && html`<${Report} of=${report.value} />`}`;
}

function Shadow({ name }) {
  const reports = useLive(at`/shadow-reports?policy=${name}`, "decisions");
  return html`<${Loaded} of=${reports}>${(list) => (list.length === 0 ? html`<${Empty}>${t("policies.noShadow")}<//>`
    : list.map((r) => html`<div key=${r.digest}><p>${t("policies.shadowOn", { file: digest(r.file), against: r.against || t("policies.wholeChain") })}</p><${Difference} of=${r} /></div>`))}<//>`;
}
