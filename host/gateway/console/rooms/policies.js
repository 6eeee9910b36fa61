// Policies: the chain in force, what it decides as it happens, and each policy with its versions, source, cases and shadow.

import { useLive } from "../lib/live.js";
import { Badge, Loaded, Page, Section, Table, Text, When } from "../lib/parts.js";
import { number, t } from "../lib/text.js";
import { html } from "../lib/ui.js";
import { Decision, Decisions } from "./policies/decisions.js";
import { Policy } from "./policies/one.js";

export function Room({ rest: [kind, name], go }) {
  if (kind === "decision") return html`<${Decision} key=${name} id=${name} go=${go} />`;
  if (kind === "policy") return html`<${Policy} key=${name} name=${name} />`;
  return html`<${Chain} />`;
}

const address = (name) => "#policies/policy/" + encodeURIComponent(name);

// State is the state of a policy as a badge.
export const State = ({ of: p }) => html`<${Badge} kind=${p.ok ? (p.pinned ? "warn" : "good") : "bad"}>${p.state}<//> ${p.shadow && html`<${Badge} kind="info">${t("policies.shadow")}<//>`}`;

// digest is the beginning of a digest.
export const digest = (text) => (text ?? "").slice(0, 12);

function Chain() {
  const list = useLive("/policies", "policies", "configuration");
  return html`<${Page} title=${t("policies.title")} lead=${t("policies.lead")}>
    <${Loaded} of=${list}>${(all) => html`<${Table} caption=${t("policies.chain")} rows=${all} keyOf=${(p) => p.name} empty=${t("policies.none")} columns=${[
      { title: t("policies.name"), cell: (p) => html`<a href=${address(p.name)}><${Text}>${p.name}<//></a>` },
      { title: t("policies.kinds"), cell: (p) => (p.kinds ?? []).join(", ") },
      { title: t("policies.state"), cell: (p) => html`<${State} of=${p} /> ${p.detail && html`<div class="small"><${Text}>${p.detail}<//></div>`}` },
      { title: t("policies.version"), cell: (p) => html`<${Text}>${p.version || digest(p.file)}<//>` },
      { title: t("policies.since"), cell: (p) => html`<${When} at=${p.since} />` },
      { title: t("policies.decided"), number: true, cell: (p) => number(p.decisions) },
      { title: t("policies.failed"), number: true, cell: (p) => number(p.failures) },
    ]} />`}<//>
    <${Section} title=${t("policies.decisions")}><${Decisions} policies=${(list.value ?? []).map((p) => p.name)} /><//>
  <//>`;
}
