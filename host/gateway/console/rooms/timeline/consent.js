// What waits for a person, what people have allowed for longer, and the records of both.

import { at, send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Badge, Danger, Empty, Field, Loaded, Table, Text, When } from "../../lib/parts.js";
import { query } from "../../lib/pages.js";
import { number, t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { Cards, waiting } from "../../lib/waits.js";
import { turnAddress } from "./turns.js";

export function Approvals() {
  const list = waiting.value;
  if (!list) return html`<p class="small" role="status">${t("shell.loading")}</p>`;
  return html`${!list.length && html`<${Empty}>${t("timeline.nothingWaits")}<//>`}<${Cards} of=${list} />`;
}

export function Grants() {
  const list = useLive("/grants", "approvals");
  return html`<${Loaded} of=${list}>${(all) => html`<${Table} caption=${t("timeline.grants")} rows=${[...all].reverse()} keyOf=${(g) => g.id} empty=${t("timeline.noGrants")} columns=${[
    { title: t("timeline.covers"), cell: (g) => html`<${Text}>${g.covers}<//> <div class="small"><${Text}>${g.agent + " · " + g.session}<//></div>` },
    { title: t("timeline.state"), cell: (g) => html`<${Badge} kind=${g.open ? "good" : ""}>${g.open ? t("timeline.open") : t("timeline.over")}<//> ${g.scope}` },
    { title: t("timeline.granter"), cell: (g) => html`<${Text}>${g.granter}<//> <${When} at=${g.created} />` },
    { title: t("timeline.until"), cell: (g) => html`<${When} at=${g.ended || g.expires} /> <${Text}>${g.ended_by ?? ""}<//>` },
    { title: t("timeline.uses"), number: true, cell: (g) => number(g.uses) },
    { title: t("shell.actions"), cell: (g) => g.open && html`<${Danger} word=${t("timeline.revoke")} question=${html`${t("timeline.sure")} <${Text}>${g.covers}<//>`} does=${async () => { await send("DELETE", at`/grants/${g.id}`); list.again(); }}>${t("timeline.revoke")}<//>` },
  ]} />`}<//>`;
}

export function Audit() {
  const filter = useSignal({ kind: "", subject: "" });
  const set = (name) => (value) => { filter.value = { ...filter.value, [name]: value.trim() }; };
  const list = useLive(query("/audit", { ...filter.value, limit: 500 }), "approvals");
  return html`<div class="filters" role="search" aria-label=${t("timeline.filterAudit")}>
      <${Field} label=${t("timeline.kind")} value=${filter.value.kind} change=${set("kind")}
        options=${[{ value: "", title: t("timeline.any") }, "grant", "grant_used", "grant_ended", "elevated", "elevated_used", "elevated_ended", "terminal", "terminal_ended", "session_deleted"]} />
      <${Field} label=${t("timeline.subject")} value=${filter.value.subject} change=${set("subject")} maxlength="256" />
    </div>
    <${Loaded} of=${list}>${(page) => html`<${Table} caption=${t("timeline.audit")} rows=${[...page.items].reverse()} keyOf=${(r) => r.id} empty=${t("timeline.noAudit")} columns=${[
      { title: t("timeline.when"), cell: (r) => html`<${When} at=${r.at} />` },
      { title: t("timeline.kind"), cell: (r) => html`<${Badge}>${r.kind}<//>` },
      { title: t("timeline.subject"), cell: (r) => html`<${Text}>${r.subject}<//>` },
      { title: t("timeline.actor"), cell: (r) => html`<${Text}>${r.actor || t("timeline.theHost")}<//>` },
      { title: t("timeline.about"), cell: (r) => html`<${Text}>${[r.agent, r.tool, r.detail].filter(Boolean).join(" · ")}<//> ${r.turn && html`<a href=${turnAddress(r.turn)}>${t("timeline.one")}</a>`}` },
    ]} />`}<//>`;
}
