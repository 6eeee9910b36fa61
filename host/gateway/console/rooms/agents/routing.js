// Routing: the rules in the order in which they are tried, and "try a message", which asks the live routing.

import { send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Badge, Button, Facts, Field, Loaded, Notice, Section, Table, Text } from "../../lib/parts.js";
import { number, t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { linkOf } from "../agents.js";

export function Routing() {
  const routing = useLive("/routing", "configuration", "policies");
  return html`<${Loaded} of=${routing}>${(r) => html`<${Try} channels=${r.channels} /><${Rules} of=${r} />`}<//>`;
}

const agentLink = (name) => html`<a href=${linkOf(name)}><${Text}>${name}<//></a>`;

function Rules({ of: r }) {
  return html`<${Section} title=${t("routing.rules")} actions=${html`<a class="button" href="#settings/routing">${t("agents.edit")}</a>`}>
      ${r.findings.map((f) => html`<${Notice} kind=${f.warning ? "warn" : "bad"} key=${f.key + f.problem}><${Text}>${`${f.key}: ${f.problem}${f.hint ? " (" + f.hint + ")" : ""}`}<//><//>`)}
      <p class="small">${t("routing.order")}</p>
      <${Table} caption=${t("routing.rules")} rows=${r.rules} keyOf=${(x) => x.tier + x.rule} empty=${t("routing.noRules")} columns=${[
        { title: t("routing.tier"), cell: (x) => t("routing." + x.tier) },
        { title: t("routing.rule"), cell: (x) => html`<${Text}>${x.rule}<//>` },
        { title: t("routing.agent"), cell: (x) => agentLink(x.agent) },
        { title: t("routing.line"), number: true, cell: (x) => x.line ?? "" },
      ]} />
    <//>
    <${Section} title=${t("routing.more")}><${Facts} of=${[
      [t("routing.choices"), r.choices.length ? r.choices.map((c) => html`<span class="part" key=${c.agent}>${agentLink(c.agent)} ${t("routing.from", { role: c.least })}</span>`) : t("routing.none")],
      [t("routing.policies"), r.policies.length ? html`<${Text}>${r.policies.join(" → ")}<//>` : t("routing.none")],
    ]} /><//>`;
}

const empty = { sender: "", text: "", conversation: "", kind: "dm", roles: "", unaddressed: false };

function Try({ channels }) {
  const form = useSignal({ channel: channels.includes("web") ? "web" : channels[0], ...empty });
  const answer = useSignal(null);
  const field = (key, more) => html`<${Field} label=${t("routing." + key)} value=${form.value[key]} change=${(x) => { form.value = { ...form.value, [key]: x }; }} ...${more} />`;
  const ask = async () => {
    answer.value = null;
    const { channel, sender, text, conversation, kind, roles, unaddressed } = form.value;
    answer.value = await send("POST", "/routing/try", {
      channel, sender, kind, unaddressed, ...(text && { text }), ...(conversation && { conversation }), ...(roles && { roles: roles.split(",").map((x) => x.trim()).filter(Boolean) }),
    });
  };
  return html`<${Section} title=${t("routing.try")}><p class="small">${t("routing.tryLead")}</p>
    <form onSubmit=${(e) => { e.preventDefault(); e.currentTarget.querySelector("button").click(); }}>
      <div class="filters tops">${field("channel", { options: channels })}${field("sender", { help: t("routing.senderHelp"), autocomplete: "off" })}
        ${field("kind", { options: ["dm", "group", "thread"].map((value) => ({ value, title: t("routing." + value) })) })}${field("conversation", { help: t("routing.conversationHelp") })}</div>
      ${field("text", { rows: 3 })}${field("roles", { help: t("routing.rolesHelp") })}${field("unaddressed", { kind: "checkbox" })}
      <${Button} kind="main" does=${ask}>${t("routing.ask")}<//>
    </form>
    <div role="status">${answer.value && html`<${Explanation} of=${answer.value} />`}</div><//>`;
}

// verdict says in one sentence what becomes of the message.
function verdict(e) {
  if (e.admission !== "allowed") return ["bad", e.agent ? t("routing.refusedFor", { why: e.admission_why, agent: e.agent }) : t("routing.refused", { why: e.admission_why })];
  if (e.agent) return ["good", t("routing.answers", { agent: e.agent })];
  return ["bad", e.dropped ? t("routing.dropped", { policy: e.policy }) : t("routing.silent")];
}

function Explanation({ of: e }) {
  const [kind, words] = verdict(e);
  return html`<${Notice} kind=${kind}><${Text}>${words}<//><//>
    <${Facts} of=${[
      [t("routing.who"), html`<${Text}>${e.sender}<//>`], [t("routing.role"), e.role], [t("routing.identity"), e.identity],
      [t("routing.admission"), `${e.admission}${e.admission_why ? ": " + e.admission_why : ""}`],
      [t("routing.took"), e.tier && html`${t("routing." + e.tier)} <${Text}>${e.rule ?? ""}<//>${e.line ? ` (${t("routing.line")} ${e.line})` : ""} → ${e.candidate && agentLink(e.candidate)}`],
      [t("routing.decided"), e.policy && html`<${Text}>${e.policy}<//> ${e.failed && html`<${Badge} kind="bad">${t("routing.failed")}<//>`} <${Text}>${e.reason}<//>`],
    ]} />
    ${e.policies.length > 0 && html`<${Table} caption=${t("routing.policies")} rows=${e.policies} keyOf=${(p) => p.name} empty="" columns=${[
      { title: t("routing.policy"), cell: (p) => html`<${Text}>${p.name}<//>` },
      { title: t("routing.answer"), cell: (p) => html`<${Text}>${p.answer}<//>` },
      { title: t("routing.why"), cell: (p) => html`<${Text}>${p.error || p.reason}<//>` },
      { title: t("routing.fuel"), number: true, cell: (p) => number(p.fuel) },
      { title: t("routing.micros"), number: true, cell: (p) => number(Math.round(p.nanos / 1000)) },
    ]} />`}`;
}
