// One message from its arrival to the delivery of the answer, with every decision on the way: who made it, why, and what it was made of.

import { at } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Badge, Facts, Loaded, Notice, Page, Section, Source, Text, When } from "../../lib/parts.js";
import { money, n, number, t } from "../../lib/text.js";
import { html } from "../../lib/ui.js";
import { stateKind, turnAddress } from "./turns.js";

export function Turn({ id }) {
  const trace = useLive(at`/turns/${id}`, "conversations", "approvals");
  return html`<${Page} title=${t("timeline.one")}>
    <${Loaded} of=${trace}>${(x) => html`
      <${Facts} of=${[
        [t("timeline.id"), html`<code><${Text}>${x.id}<//></code>`],
        [t("timeline.outcome"), html`<${Badge} kind=${stateKind(x.state)}>${x.state}<//> <${Text}>${x.error ?? ""}<//>`],
        [t("timeline.person"), html`<${Text}>${x.sender}<//>`],
        [t("timeline.where"), html`<${Text}>${x.channel + " · " + x.conversation}<//>`],
        [t("timeline.agent"), x.agent && html`<${Text}>${x.agent}<//>`],
        [t("timeline.began"), html`<${When} at=${x.started} />`],
        [t("timeline.ended"), x.ended && html`<${When} at=${x.ended} />`],
        [t("timeline.cost"), x.tokens > 0 && t("timeline.tokens", { tokens: number(x.tokens), money: money(x.cost_usd) })],
        [t("timeline.configuration"), x.generation && number(x.generation)],
        [t("timeline.delegated"), x.parent && html`<a href=${turnAddress(x.parent)}>${x.parent}</a>`],
      ]} />
      ${x.cut && html`<${Notice} kind="warn">${t("timeline.cut")}<//>`}
      <${Section} title=${t("timeline.way")}><ol class="journey">${way(x)}</ol><//>`}<//>
  <//>`;
}

// Mark is a station: its time, its name, and what is known of it.
const Mark = ({ when, kind, name, children }) => html`<li class=${"station " + (kind ?? "")}><div class="station-head"><b>${name}</b> <${When} at=${when} /></div>${children}</li>`;

const Said = ({ children }) => (children ? html`<div class="small"><${Text}>${children}<//></div>` : null);

// Made is a decision with its author; the link leads to what it was made of.
function Made({ of: d }) {
  const who = { route_table: t("timeline.byTable"), enforce: t("timeline.byHost"), wait: t("timeline.byHost") }[d.kind] ?? t("timeline.byPolicy", { name: "" });
  const named = d.kind === "route" || d.kind === "tool";
  return html`<li><a href=${"#policies/decision/" + d.id}>${who}${named && html` <${Text}>${d.by}<//>`}</a> <${Badge} kind=${d.error ? "bad" : /^(deny|drop)/.test(d.answer) ? "warn" : ""}><${Text}>${d.answer.trim() || t("timeline.noAnswer")}<//><//>
    <${When} at=${d.at} /><${Said}>${[d.reason, d.error].filter(Boolean).join(" · ")}<//></li>`;
}

const AllMade = ({ of: list }) => (list?.length ? html`<ul class="made">${list.map((d) => html`<${Made} key=${d.id} of=${d} />`)}</ul>` : null);

// way returns the stations in their order.
function way(x) {
  return [
    ...(x.messages ?? []).map((m) => html`<${Mark} key=${"m" + m.row} when=${m.at} name=${t("timeline.arrival")}>
      <div><${Text}>${m.sender}<//> <${Badge} kind=${stateKind(m.state)}>${m.state}<//></div><${Source} label=${t("timeline.said")}>${m.text}<//><${Said}>${m.note}<//><//>`),
    x.route?.length > 0 && html`<${Mark} when=${x.route[0].at} name=${t("timeline.route")}><${AllMade} of=${x.route} /><//>`,
    ...(x.steps ?? []).map((s) => html`<${Step} key=${"s" + s.seq} of=${s} />`),
    x.decisions?.length > 0 && html`<${Mark} when=${x.decisions[0].at} name=${t("timeline.decisions")}><${AllMade} of=${x.decisions} /><//>`,
    ...(x.approvals ?? []).map((a) => html`<${Asked} key=${a.id} of=${a} />`),
    ...(x.audit ?? []).map((a, i) => html`<${Mark} key=${"u" + i} when=${a.at} name=${a.kind}><${Said}>${[a.subject, a.actor, a.detail].filter(Boolean).join(" · ")}<//><//>`),
    ...(x.deliveries ?? []).map((d) => html`<${Mark} key=${d.key} kind=${d.state === "sent" ? "good" : "warn"} when=${d.next_try} name=${t("timeline.delivery", { channel: d.channel })}>
      <div><${Badge} kind=${d.state === "sent" ? "good" : d.state === "failed" ? "bad" : "warn"}>${d.state}<//> ${n("timeline.attempts", d.attempts)}
      ${d.parts > 1 && t("timeline.partsOf", { delivered: number(d.delivered), parts: number(d.parts) })}</div><${Said}>${d.note}<//><${Source} label=${t("timeline.reply")}>${d.text}<//><//>`),
  ];
}

function Step({ of: s }) {
  const failed = (s.attempts ?? []).filter((a) => a.failure);
  return html`<${Mark} when=${s.at} kind=${s.error ? "bad" : ""} name=${s.task || t("timeline.model")}>
    <div class="small"><${Text}>${[s.provider, s.model].filter(Boolean).join("/")}<//> ${t("timeline.tokens", { tokens: number(s.tokens.input + s.tokens.output), money: money(s.cost_usd) })}</div>
    <${Said}>${s.error}<//>
    ${failed.map((a) => html`<div class="trouble" key=${a.number}>${t("timeline.attempt", { number: a.attempt })} <${Text}>${a.failure}<//></div>`)}
    ${(s.calls ?? []).map((c) => html`<${Call} key=${c.id} of=${c} />`)}
  <//>`;
}

function Call({ of: c }) {
  const outcome = c.verdict || t("timeline.noOutcome");
  return html`<div class="call-made"><div><b><${Text}>${c.tool}<//></b> <${Badge} kind=${c.verdict === "deny" ? "warn" : c.is_error ? "bad" : ""}>${outcome}${c.where ? " · " + c.where : ""}<//> <${When} at=${c.started} /></div>
    ${c.args !== undefined && html`<${Source} label=${t("timeline.args")}>${typeof c.args === "string" ? c.args : JSON.stringify(c.args, null, 2)}<//>`}
    <${AllMade} of=${[...(c.policies ?? []), ...(c.host ? [c.host] : [])]} />
    ${c.reasons?.length > 0 && html`<div>${t("timeline.restrictions")}<ul class="made">${c.reasons.map((r, i) => html`<li key=${i}><${Text}>${r}<//></li>`)}</ul></div>`}
    ${(c.approvals ?? []).map((a) => html`<${Asking} key=${a.id} of=${a} />`)}
    ${(c.audit ?? []).map((a, i) => html`<${Said} key=${i}>${[a.kind, a.subject, a.actor, a.detail].filter(Boolean).join(" · ")}<//>`)}
    <${AllMade} of=${c.within} />
    ${c.child && html`<p><a href=${turnAddress(c.child)}>${t("timeline.child")}</a></p>`}
    ${c.result && html`<details><summary>${c.is_error ? t("timeline.error") : t("timeline.result")}</summary><${Source} label=${t("timeline.result")}>${c.result}<//></details>`}
  </div>`;
}

const answered = (a) => (a.decided ? t("timeline.decidedBy", { state: a.state }) : t("timeline.undecided", { state: a.state }));

const Asking = ({ of: a }) => html`<div class="small">${t("timeline.asked")} <${When} at=${a.created} />: ${answered(a)} <${Text}>${a.decider ?? ""}<//> <${When} at=${a.decided} />
  ${a.scope && html`<${Badge}>${a.scope}<//>`} <${Text}>${(a.reasons ?? []).join(" · ")}<//></div>`;

const Asked = ({ of: a }) => html`<${Mark} when=${a.created} name=${t("timeline.approval", { tool: a.tool })}><${Asking} of=${a} /><//>`;
