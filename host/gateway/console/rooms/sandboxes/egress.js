// What programs in sandboxes asked the network for, as it happens, and what they may reach.

import { useLive } from "../../lib/live.js";
import { Pages, query, usePages } from "../../lib/pages.js";
import { Badge, Field, Loaded, Section, Table, Text, When } from "../../lib/parts.js";
import { bytes, t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";

const often = 5; // seconds between two looks

export function Egress() {
  const filter = useSignal({ agent: "", person: "", denied: false });
  const set = (name) => (value) => { filter.value = { ...filter.value, [name]: typeof value === "string" ? value.trim() : value }; };
  const list = usePages(query("/egress", filter.value), (r) => r.id, ["sandboxes"], often);
  return html`<${Section} title=${t("sandboxes.egress")}>
    <div class="filters" role="search" aria-label=${t("sandboxes.filter")}>
      <${Field} label=${t("sandboxes.agent")} value=${filter.value.agent} change=${set("agent")} maxlength="256" />
      <${Field} label=${t("sandboxes.person")} value=${filter.value.person} change=${set("person")} maxlength="1024" />
      <${Field} label=${t("sandboxes.deniedOnly")} kind="checkbox" value=${filter.value.denied} change=${set("denied")} />
    </div>
    <${Pages} of=${list} caption=${t("sandboxes.egress")} keyOf=${(r) => r.id} empty=${t("sandboxes.noEgress")} columns=${[
      { title: t("sandboxes.when"), cell: (r) => html`<${When} at=${r.at} />` },
      { title: t("sandboxes.decision"), cell: (r) => html`<${Badge} kind=${r.allowed ? "good" : "bad"}>${r.allowed ? t("sandboxes.allowed") : t("sandboxes.denied")}<//> ${r.credential && html`<${Badge}>${t("sandboxes.credential")}<//>`} <${Text}>${r.reason ?? ""}<//>` },
      { title: t("sandboxes.target"), cell: (r) => html`<code><${Text}>${[r.method, r.host + (r.port ? ":" + r.port : "")].filter(Boolean).join(" ")}<//></code> <div class="small">${r.kind}</div>` },
      { title: t("sandboxes.session"), cell: (r) => html`<${Text}>${r.session}<//>` },
      { title: t("sandboxes.carried"), number: true, cell: (r) => r.ended && t("sandboxes.upDown", { up: bytes(r.up), down: bytes(r.down) }) },
    ]} />
  <//>`;
}

// Rules shows what is configured; the settings change it.
export function Rules() {
  const list = useLive("/sandboxes/rules", "configuration");
  const names = (all, none) => (all.length ? html`<ul class="made">${all.map((x) => html`<li key=${x}><code><${Text}>${x}<//></code></li>`)}</ul>` : none);
  return html`<${Section} title=${t("sandboxes.rules")}><${Loaded} of=${list}>${(all) => html`<${Table} caption=${t("sandboxes.rules")} rows=${all} keyOf=${(r) => r.name} empty=${t("sandboxes.noRules")} columns=${[
    { title: t("sandboxes.name"), cell: (r) => html`<${Text}>${r.name || t("sandboxes.usual")}<//>` },
    { title: t("sandboxes.image"), cell: (r) => html`<${Text}>${r.image}<//>` },
    { title: t("sandboxes.network"), cell: (r) => r.network },
    { title: t("sandboxes.allow"), cell: (r) => names(r.allow, r.network === "allowlist" || r.network === "none" ? t("sandboxes.nothing") : t("sandboxes.everything")) },
    { title: t("sandboxes.deny"), cell: (r) => (r.network === "allowlist" ? t("sandboxes.rest") : "") },
    { title: t("sandboxes.outside"), cell: (r) => names([...r.bridges, ...r.credentials.map((c) => t("sandboxes.credentialFor", { host: c }))], "") },
  ]} />`}<//><//>`;
}
