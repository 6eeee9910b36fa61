// The timeline: what became of each message from its arrival to the delivery of the answer, who allowed what, and the records of that.

import { Page, Tabs } from "../lib/parts.js";
import { t } from "../lib/text.js";
import { html } from "../lib/ui.js";
import { Approvals, Audit, Grants } from "./timeline/consent.js";
import { Turn } from "./timeline/turn.js";
import { Turns } from "./timeline/turns.js";

const parts = { turns: Turns, approvals: Approvals, grants: Grants, audit: Audit };

export function Room({ rest: [part = "turns", id], go }) {
  if (part === "turn") return html`<${Turn} key=${id} id=${id} />`;
  const Part = parts[part] ?? Turns;
  return html`<${Page} title=${t("timeline.title")} lead=${t("timeline.lead")}>
    <${Tabs} label=${t("timeline.parts")} of=${Object.keys(parts).map((key) => [key, t("timeline." + key)])} now=${parts[part] ? part : "turns"} choose=${(key) => go("timeline", key)} />
    <${Part} />
  <//>`;
}
