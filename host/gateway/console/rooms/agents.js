// Agents: who they are, what each may do and where, and which rule takes whom.

import { useLive } from "../lib/live.js";
import { Badge, Loaded, Page, Table, Tabs, Text } from "../lib/parts.js";
import { number, t } from "../lib/text.js";
import { html } from "../lib/ui.js";
import { Agent } from "./agents/agent.js";
import { Routing } from "./agents/routing.js";

// An address #agents/of/NAME is one agent, whatever its name is.
export function Room({ rest, go }) {
  const named = rest[0] === "of" ? rest[1] : undefined;
  const now = rest[0] === "routing" ? "routing" : "agents";
  return html`<${Page} title=${t("agents.title")}>
    <${Tabs} label=${t("agents.title")} now=${now} choose=${(key) => go("agents", ...(key === "routing" ? ["routing"] : []))}
      of=${[["agents", t("agents.agents")], ["routing", t("agents.routing")]]} />
    ${named !== undefined ? html`<${Agent} key=${named} name=${named} />` : now === "routing" ? html`<${Routing} />` : html`<${List} />`}
  <//>`;
}

export const linkOf = (name) => "#agents/of/" + encodeURIComponent(name);

function List() {
  const agents = useLive("/agents", "configuration", "plugins");
  return html`<${Loaded} of=${agents}>${(list) => html`<${Table} caption=${t("agents.agents")} rows=${list} keyOf=${(a) => a.name} empty=${t("agents.none")} columns=${[
    { title: t("agents.name"), cell: (a) => html`<a href=${linkOf(a.name)}><${Text}>${a.name}<//></a> ${a.default && html`<${Badge}>${t("agents.default")}<//>`}${a.waits && html` <${Badge} kind="warn">${t("agents.waits", { names: a.waits.join(", ") })}<//>`}${a.missing && html` <${Badge} kind="bad">${t("agents.cannot")}<//> <${Text}>${a.missing}<//>`}` },
    { title: t("agents.kind"), cell: (a) => t("agents." + a.kind) },
    { title: t("agents.model"), cell: (a) => (a.tier ? html`${a.tier} <span class="sub"><${Text}>${a.model}<//></span>` : t("agents.own")) },
    { title: t("agents.tools"), cell: (a) => (a.profile ? t("agents.toolCount", { count: number(a.tools), profile: a.profile }) : number(a.tools)) },
    { title: t("agents.sandbox"), cell: (a) => (a.sandbox ? html`<${Badge} kind="good"><${Text}>${a.sandbox}<//><//>` : html`<${Badge} kind="info">${t("agents.host")}<//>`) },
  ]} />`}<//>`;
}
