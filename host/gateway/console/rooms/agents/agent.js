// One agent: its prompt, tools and where they run, sandbox, limits, delegates, budget and memory.

import { at } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Badge, Facts, Field, Loaded, Notice, Section, Source, Table, Text } from "../../lib/parts.js";
import { bytes, money, number, t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { linkOf } from "../agents.js";

export function Agent({ name }) {
  const agent = useLive(at`/agents/${name}`, "configuration", "plugins", "usage", "sandboxes");
  return html`<p><a href="#agents">${t("agents.back")}</a></p><${Loaded} of=${agent}>${(a) => html`<${All} of=${a} />`}<//>`;
}

const links = (names) => names.length > 0 && names.map((n) => html`<a class="part" key=${n} href=${linkOf(n)}><${Text}>${n}<//></a>`);

function All({ of: a }) {
  return html`<${Section} title=${html`<${Text}>${a.name}<//>`} actions=${html`<a class="button" href=${"#settings/agent_configs/" + encodeURIComponent(a.name)}>${t("agents.edit")}</a>`}>
      ${a.missing && html`<${Notice} kind="bad"><${Text}>${a.missing}<//><//>`}
      ${a.waits && html`<${Notice} kind="warn">${t("agents.waits", { names: a.waits.join(", ") })}<//>`}
      <${Facts} of=${[
        [t("agents.kind"), t("agents." + a.kind) + (a.default ? " · " + t("agents.default") : "")],
        [t("agents.model"), a.tier ? html`<a href="#models">${a.tier}</a> <${Text}>${a.model}<//>` : t("agents.own")],
        [t("agents.window"), a.window && t("agents.tokens", { count: number(a.window) })],
        [t("agents.tiers"), a.tiers.length > 1 && a.tiers.join(", ")],
        [t("agents.delegates"), links(a.delegates)],
        [t("agents.delegatedBy"), links(a.delegated_by)],
        [t("agents.choose"), a.selectable_by ? t("agents.chooseFrom", { role: a.selectable_by }) : t("agents.nobody")],
        [t("agents.queue"), a.queue],
        [t("agents.approve"), t(a.approve === "none" ? "agents.approveNone" : "agents.approveShell")],
        [t("agents.elevated"), t(a.elevated ? "agents.yes" : "agents.no")],
      ]} /><//>
    <${Section} title=${t("agents.prompt")}><p class="small">${t("agents.characters", { count: number(a.system_length) })}</p>
      ${a.system ? html`<${Source} label=${t("agents.prompt")}>${a.system}<//>` : t("agents.noPrompt")}<//>
    <${Tools} of=${a} />
    <${Section} title=${t("agents.sandbox")}>${a.where ? html`<${Sandbox} of=${a.where} />` : html`<p>${t("agents.onHost")}</p>`}<//>
    <${Section} title=${t("agents.budget")}><${Budget} of=${a.budget} /><//>
    <${Section} title=${t("agents.memory")}><${Facts} of=${[
      [t("agents.memoryTools"), a.memory.tools.join(", ") || t("agents.noMemory")],
      [t("agents.extract"), t(a.memory.extract ? "agents.yes" : "agents.no")], [t("agents.recall"), t(a.memory.recall ? "agents.yes" : "agents.no")],
      [t("agents.maxNotes"), number(a.memory.max_notes)],
      [t("agents.notes"), html`<a href=${"#memory/agent/" + encodeURIComponent(a.name)}>${t("agents.toNotes")}</a>`],
    ]} /><//>`;
}

// Tools shows those whose name has what was typed, since an agent may have hundreds.
function Tools({ of: a }) {
  const typed = useSignal("");
  const found = a.offered.filter((tool) => tool.name.toLowerCase().includes(typed.value.toLowerCase()));
  return html`<${Section} title=${t("agents.tools")}><p class="small">${t("agents.toolsLead")}</p>
    ${a.offered.length > 12 && html`<${Field} label=${t("agents.find", { count: number(a.offered.length) })} value=${typed.value} change=${(x) => { typed.value = x; }} />`}
    <${Table} caption=${t("agents.tools")} rows=${found} keyOf=${(tool) => tool.name} empty=${t("agents.noTools")} columns=${[
      { title: t("agents.tool"), cell: (tool) => html`<b><${Text}>${tool.name}<//></b><div class="small"><${Text}>${tool.says}<//></div>` },
      { title: t("agents.effect"), cell: (tool) => html`${tool.effect}${tool.provider && html`<div class="small">${t("agents.of")} <${Text}>${tool.provider}<//></div>`}` },
      { title: t("agents.byChannel"), cell: (tool) => html`<${Outlook} of=${tool.channel} />` },
      { title: t("agents.here"), cell: (tool) => html`<${Outlook} of=${tool.local} />` },
    ]} /><//>`;
}

const Outlook = ({ of: d }) => html`<${Badge} kind=${{ run: "", ask: "warn", deny: "bad" }[d.action]}>${t("agents." + d.action)}<//> ${d.action !== "deny" && (d.where === "host" ? t("agents.atHost") : t("agents.in", { where: d.where }))}
  ${d.reasons.length > 0 && html`<div class="small"><${Text}>${d.reasons.join("; ")}<//></div>`}`;

const Sandbox = ({ of: s }) => html`${!s.available && html`<${Notice} kind="bad">${t("agents.unavailable")} <${Text}>${s.detail}<//><//>`}<${Facts} of=${[
  [t("agents.name"), s.name], [t("agents.image"), html`<${Text}>${s.image}<//>`],
  [t("agents.network"), html`${s.network} ${s.allowlist.length > 0 && html`<${Text}>${s.allowlist.join(", ")}<//>`}`],
  [t("agents.ram"), bytes(s.memory_bytes)], [t("agents.disk"), s.disk_bytes ? bytes(s.disk_bytes) : t("agents.noLimit")],
  [t("agents.cpus"), number(s.cpus)], [t("agents.pids"), number(s.pids)], [t("agents.timeout"), t("agents.seconds", { count: number(s.timeout_seconds) })], [t("agents.runtime"), s.runtime],
]} />`;

function Budget({ of: b }) {
  const of = (used, limit, left, form) => (limit === undefined ? t("agents.used", { used }) : t("agents.usedOf", { used, most: form(limit), left: form(left) }));
  return html`<${Facts} of=${[
    [t("agents.tokensToday"), of(number(b.tokens), b.tokens_limit, b.tokens_left, number)],
    [t("agents.moneyToday"), of(b.usd === null ? t("agents.unknown") : money(b.usd), b.usd_limit, b.usd_left, money)],
  ]} />`;
}
