// Today: is all well, what waits, what ran, what failed, each with the way to it.

import { useLive } from "../lib/live.js";
import { Badge, Button, Empty, Facts, Loaded, Notice, Page, Section, Text, When } from "../lib/parts.js";
import { conversation } from "../lib/approvals.js";
import { possible, want, wanted } from "../lib/notify.js";
import { money, n, number, t } from "../lib/text.js";
import { html } from "../lib/ui.js";
import { waiting } from "../lib/waits.js";

export function Room() {
  const status = useLive("/status", "halt", "plugins", "policies", "configuration", "conversations", "sandboxes", "usage", "logs-warn");
  const people = useLive("/people", "people");
  const schedules = useLive("/schedules", "schedules");
  return html`<${Page} title=${t("today.title")}>
    <${Loaded} of=${status}>${(s) => html`<${Health} of=${s} />`}<//>
    <${Section} title=${t("today.waiting")} actions=${possible && html`<${Button} kind="quiet" does=${() => want(!wanted.value)}>${wanted.value ? t("today.quiet") : t("today.notify")}<//>`}>
      <${Waiting} approvals=${waiting.value ?? []} people=${(people.value ?? []).filter((p) => p.state === "open")} />
    <//>
    <${Loaded} of=${status}>${(s) => html`<${Spend} of=${s} /><${Parts} of=${s} />`}<//>
    <${Loaded} of=${schedules}>${(list) => html`<${Runs} of=${list} />`}<//>
    <${Loaded} of=${status}>${(s) => html`<${Failures} of=${s} />`}<//>
  <//>`;
}

// Health says whether anything is wrong, and what.
function Health({ of: s }) {
  if (s.halt) return html`<${Notice} kind="bad">${t("today.halted", { by: s.halt.by })} <${When} at=${s.halt.since} />${s.halt.reason && html` · <${Text}>${s.halt.reason}<//>`}<//>`;
  if (!s.warnings?.length) return html`<${Notice} kind="good">${t("today.well")}<//>`;
  return s.warnings.map((w) => html`<${Notice} kind="warn"><${Text}>${w}<//><//>`);
}

function Waiting({ approvals, people }) {
  if (!approvals.length && !people.length) return html`<${Empty}>${t("today.nothingWaits")}<//>`;
  return html`<ul class="lines">
    ${approvals.map((a) => html`<li key=${a.id}><a href=${conversation(a.session)}>${t("today.approval", { agent: a.agent, tool: a.tool })}</a> <${When} at=${a.created} /></li>`)}
    ${people.map((p) => html`<li key=${p.code}><a href="#people"><${Text}>${p.sender}<//></a> ${p.name && html`<${Text}>${p.name}<//>`} ${t("today.knocks")} <${When} at=${p.asked} /></li>`)}
  </ul>`;
}

function Spend({ of: s }) {
  const limit = (used, most, form) => (most ? t("today.ofLimit", { used: form(used), most: form(most) }) : form(used));
  return html`<${Section} title=${t("today.spend")}>
    <ul class="lines">${(s.budgets ?? []).map((b) => html`<li key=${b.agent ?? ""}>
      <span class="name">${b.agent || t("today.all")}</span> <span>${limit(b.usd, b.usd_limit, money)}</span>
      <span class="sub">${t("today.tokens", { count: limit(b.tokens, b.tokens_limit, number) })}</span></li>`)}</ul>
  <//>`;
}

function Parts({ of: s }) {
  const sandbox = !s.sandbox.enabled ? ["", t("today.off")] : s.sandbox.available ? ["good", t("today.available")] : ["bad", t("today.unavailable")];
  const waiting = Object.values(s.queue.replies ?? {}).reduce((sum, x) => sum + x, 0);
  return html`<${Section} title=${t("today.parts")}><${Facts} of=${[
    [t("today.agents"), (s.agents ?? []).map((a) => a.name).join(", ")],
    [t("today.channels"), s.channels?.length ? s.channels.map((c) => html`<span class="part" key=${c.name}><${Badge} kind=${c.ok ? "good" : "bad"}>${c.name}<//> ${c.ok ? "" : html`<${Text}>${c.state}<//>`}</span>`) : t("today.none")],
    [t("today.models"), (s.models ?? []).map((m) => html`<span class="part" key=${m.tier}><${Badge} kind=${m.state === "closed" ? "good" : "warn"}>${m.tier}<//></span>`)],
    [t("today.sandbox"), html`<${Badge} kind=${sandbox[0]}>${sandbox[1]}<//> <${Text}>${s.sandbox.detail}<//>`],
    [t("today.queue"), t("today.queued", { running: number(s.queue.running), waiting: number(s.queue.waiting), replies: number(waiting) })],
  ]} /><//>`;
}

function Runs({ of: list }) {
  const coming = list.filter((s) => s.next && !s.paused).sort((a, b) => a.next.localeCompare(b.next)).slice(0, 5);
  const ran = list.filter((s) => s.last).sort((a, b) => b.last.at.localeCompare(a.last.at)).slice(0, 5);
  if (!coming.length && !ran.length) return null;
  return html`<${Section} title=${t("today.runs")}><ul class="lines">
    ${ran.map((s) => html`<li key=${"ran " + s.name}><${Badge} kind=${s.last.state === "failed" ? "bad" : ""}>${s.last.state}<//> <span class="name">${s.name}</span> <${When} at=${s.last.at} /></li>`)}
    ${coming.map((s) => html`<li key=${"next " + s.name}><${Badge}>${t("today.next")}<//> <span class="name">${s.name}</span> <${When} at=${s.next} /></li>`)}
  </ul><//>`;
}

function Failures({ of: s }) {
  const errors = s.errors ?? [];
  return html`<${Section} title=${t("today.failures")}>
    ${errors.length === 0 ? html`<${Empty}>${t("today.noFailures")}<//>`
      : html`<p class="small">${n("today.failure", errors.length)}</p>
        <ul class="lines">${errors.slice(-20).reverse().map((e) => html`<li key=${e.seq}><${Badge} kind=${e.level === "ERROR" ? "bad" : "warn"}>${e.level}<//> <${Text}>${e.message}<//> <${When} at=${e.time} /></li>`)}</ul>`}
  <//>`;
}
