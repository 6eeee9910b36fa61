// Models: how the tiers are, what was used, and what is left of the budgets.

import { at, send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { Badge, Button, Facts, Loaded, Notice, Page, Section, Table, Tabs, Text, When } from "../lib/parts.js";
import { money, number, t, zone } from "../lib/text.js";
import { html, useSignal } from "../lib/ui.js";
import { Usage } from "./usage.js";

export function Room({ rest, go }) {
  const now = ["usage", "budgets"].includes(rest[0]) ? rest[0] : "tiers";
  return html`<${Page} title=${t("models.title")}>
    <${Tabs} label=${t("models.title")} now=${now} choose=${(key) => go("models", ...(key === "tiers" ? [] : [key]))}
      of=${[["tiers", t("models.tiers")], ["usage", t("models.usage")], ["budgets", t("models.budgets")]]} />
    ${now === "tiers" ? html`<${Tiers} />` : now === "usage" ? html`<${Usage} />` : html`<${Budgets} />`}
  <//>`;
}

function Tiers() {
  const tiers = useLive("/models", "configuration", "usage");
  return html`<${Loaded} of=${tiers}>${(list) => list.map((m) => html`<${Tier} key=${m.tier} of=${m} />`)}<//>`;
}

function Tier({ of: m }) {
  const answer = useSignal(null);
  const test = async () => { answer.value = await send("POST", at`/models/${m.tier}/test`); };
  return html`<${Section} title=${m.tier} actions=${html`<${Button} kind="quiet" does=${test} aria-label=${t("models.testOf", { tier: m.tier })}>${t("models.test")}<//>`}>
    ${answer.value && html`<${Answer} of=${answer.value} />`}
    <${Facts} of=${[
      [t("models.model"), html`<${Text}>${m.provider + (m.model ? "/" + m.model : "")}<//>`],
      [t("models.state"), html`<${State} of=${m} />`],
      [t("models.address"), m.base_url && html`<${Text}>${m.base_url}<//>`],
      [t("models.key"), m.key && html`<${Text}>${m.key}<//>`],
      [t("models.fallbacks"), m.fallbacks.join(", ")],
      [t("models.agents"), m.agents.length && m.agents.map((a) => html`<a class="part" href=${"#agents/of/" + encodeURIComponent(a)}><${Text}>${a}<//></a>`)],
      [t("models.window"), m.context_window ? t("models.tokens", { count: number(m.context_window) }) : t("models.unknown")],
      [t("models.output"), t("models.tokens", { count: number(m.max_output_tokens) })],
      [t("models.reasoning"), m.reasoning],
      [t("models.images"), t(m.images ? "models.yes" : "models.no")],
      [t("models.prices"), m.prices ? t("models.pricesAre", { input: money(m.prices.input), output: money(m.prices.output) }) : t("models.noPrices")],
    ]} /><//>`;
}

function State({ of: m }) {
  const kind = { closed: "good", open: "bad" }[m.state] ?? "warn";
  return html`<${Badge} kind=${kind}>${t("models." + m.state)}<//> ${m.until && html`${t("models.until")} <${When} at=${m.until} />`}
    ${m.failures ? ` ${t("models.failures", { count: number(m.failures), last: m.last ?? "" })}` : ""}`;
}

function Answer({ of: a }) {
  const cost = a.cost_usd === null ? t("models.costUnknown") : money(a.cost_usd);
  if (!a.works) return html`<${Notice} kind="bad">${t("models.fails", { fault: a.fault ?? "" })} <${Text}>${a.detail}<//><//>`;
  return html`<${Notice} kind="good">${t("models.works", { millis: number(a.millis), tokens: number(a.tokens), cost })} <${Text}>${a.text}<//><//>`;
}

function Budgets() {
  const budgets = useLive("/budgets", "usage", "configuration");
  const senders = useLive("/budgets/senders?limit=200", "usage", "configuration");
  return html`<${Loaded} of=${budgets}>${(b) => html`
    <p class="room-lead">${t("models.day", { day: b.day, zone: b.zone })} <${When} at=${b.opens} /> (${zone()}).</p>
    ${b.unpriced.length > 0 && html`<${Notice} kind="warn">${t("models.unpriced", { tiers: b.unpriced.join(", ") })}<//>`}
    <${Section} title=${t("models.host")} actions=${html`<a class="button" href="#settings/budgets">${t("models.set")}</a>`}><${Lines} name=${t("models.host")} of=${[{ ...b.host, name: t("models.all") }]} /><//>
    <${Section} title=${t("models.byAgent")}><${Lines} name=${t("models.agent")} of=${b.agents} /><//>
    <${Section} title=${t("models.bySender")}><${Loaded} of=${senders}>${(page) => html`<${Lines} name=${t("models.sender")} of=${page.items} />
      ${page.next && html`<p class="small">${t("models.more")}</p>`}`}<//><//>
    <${Section} title=${t("models.turn")}><${Facts} of=${[
      [t("models.steps"), number(b.turn.steps)], [t("models.calls"), number(b.turn.tool_calls)], [t("models.turnTokens"), number(b.turn.tokens)], [t("models.seconds"), number(b.turn.seconds)],
    ]} /><//>`}<//>`;
}

const usd = (x) => (x === null ? t("models.unknown") : money(x));

function Lines({ name, of }) {
  const left = (rest, most, form) => (most === undefined ? t("models.noLimit") : t("models.leftOf", { left: form(rest), most: form(most) }));
  return html`<${Table} caption=${name} rows=${of} keyOf=${(b) => b.name} empty=${t("models.nobody")} columns=${[
    { title: name, cell: (b) => html`<${Text}>${b.name}<//>` },
    { title: t("models.usedTokens"), number: true, cell: (b) => number(b.tokens) },
    { title: t("models.leftTokens"), number: true, cell: (b) => left(b.tokens_left, b.tokens_limit, number) },
    { title: t("models.usedMoney"), number: true, cell: (b) => usd(b.usd) },
    { title: t("models.leftMoney"), number: true, cell: (b) => left(b.usd_left, b.usd_limit, money) },
  ]} />`;
}
