// The list of turns, and of the messages that no turn took.

import { Pages, query, usePages } from "../../lib/pages.js";
import { Badge, Field, Text, When } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";

export const stateKind = (state) => ({ done: "good", failed: "bad", dropped: "warn", stale: "warn", stopped: "warn", running: "info" })[state] ?? "";

export const turnAddress = (id) => "#timeline/turn/" + encodeURIComponent(id);

export function Turns() {
  const filter = useSignal({ person: "", agent: "", channel: "", outcome: "" });
  const set = (name) => (value) => { filter.value = { ...filter.value, [name]: value.trim() }; };
  const list = usePages(query("/turns", filter.value), (x) => x.id, ["conversations"]);
  return html`<div class="filters" role="search" aria-label=${t("timeline.filter")}>
      <${Field} label=${t("timeline.person")} value=${filter.value.person} change=${set("person")} maxlength="1024" />
      <${Field} label=${t("timeline.agent")} value=${filter.value.agent} change=${set("agent")} maxlength="256" />
      <${Field} label=${t("timeline.channel")} value=${filter.value.channel} change=${set("channel")} maxlength="256" />
      <${Field} label=${t("timeline.outcome")} value=${filter.value.outcome} change=${set("outcome")} options=${[{ value: "", title: t("timeline.any") }, "running", "done", "failed", "stopped", "dropped", "stale"]} />
    </div>
    <${Pages} of=${list} caption=${t("timeline.turns")} keyOf=${(x) => x.id} empty=${t("timeline.noTurns")} columns=${[
      { title: t("timeline.when"), cell: (x) => html`<a href=${turnAddress(x.id)}><${When} at=${x.started} /></a>` },
      { title: t("timeline.person"), cell: (x) => html`<${Text}>${x.sender}<//> <div class="small"><${Text}>${x.channel + " · " + x.conversation}<//></div>` },
      { title: t("timeline.said"), cell: (x) => html`<${Text}>${x.text ?? ""}<//>` },
      { title: t("timeline.agent"), cell: (x) => html`<${Text}>${x.agent ?? ""}<//>` },
      { title: t("timeline.outcome"), cell: (x) => html`<${Badge} kind=${stateKind(x.state)}>${x.state}<//> ${x.error && html`<div class="small"><${Text}>${x.error}<//></div>`}` },
    ]} />`;
}
