// What waits for a person, what people have allowed for longer, and the records of both.

import { at, send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { conversation } from "../../lib/notify.js";
import { Badge, Button, Danger, Empty, Facts, Field, Loaded, Section, Source, Table, Text, When } from "../../lib/parts.js";
import { query } from "../../lib/pages.js";
import { number, t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { turnAddress } from "./turns.js";

export function Approvals() {
  const list = useLive("/approvals", "approvals");
  return html`<${Loaded} of=${list}>${(all) => (all.length === 0 ? html`<${Empty}>${t("timeline.nothingWaits")}<//>`
    : all.map((a) => html`<${Request} key=${a.id} of=${a} again=${list.again} />`))}<//>`;
}

function Request({ of: a, again }) {
  const decide = (body) => async () => { await send("POST", at`/approvals/${a.id}/decision`, body); again(); };
  return html`<${Section} title=${t("timeline.request", { agent: a.agent, tool: a.tool })}>
    <${Source} label=${t("timeline.args")}>${JSON.stringify(a.args, null, 2)}<//>
    <${Facts} of=${[
      [t("timeline.where"), html`<${Text}>${[a.where, a.dir].filter(Boolean).join(" · ")}<//>`],
      [t("timeline.requester"), a.requester && html`<${Text}>${a.requester}<//>`],
      [t("timeline.reasons"), a.reasons?.length > 0 && html`<${Text}>${a.reasons.join("\n")}<//>`],
      [t("timeline.began"), html`<${When} at=${a.created} />`],
      [t("timeline.until"), html`<${When} at=${a.expires} />`],
    ]} />
    <p class="actions"><${Button} does=${decide({ grant: false })}>${t("timeline.deny")}<//> <${Button} kind="main" does=${decide({ grant: true })}>${t("timeline.allow")}<//>
      ${a.may_session && html`<${Danger} word=${t("timeline.allowSession")} question=${html`<${Text}>${a.session_covers}<//>`} does=${decide({ grant: true, scope: "session" })}>${t("timeline.allowSession")}<//>`}
      <a href=${conversation(a.session)}>${t("timeline.conversation")}</a></p>
  <//>`;
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
