// Sandboxes: those that live, what programs in them ask the network for, what they may reach, and the self-test.

import { useLive } from "../lib/live.js";
import { Badge, Loaded, Page, Section, Table, Text, When } from "../lib/parts.js";
import { bytes, number, t } from "../lib/text.js";
import { html } from "../lib/ui.js";
import { Egress, Rules } from "./sandboxes/egress.js";
import { Files } from "./sandboxes/files.js";
import { SelfTest } from "./sandboxes/selftest.js";
import { Terminal } from "./sandboxes/terminal.js";

export function Room({ rest: [part, id, ref] }) {
  if (part === "files") return html`<${Files} key=${id} id=${id} path=${ref} />`;
  if (part === "terminal") return html`<${Terminal} key=${id} id=${id} />`;
  return html`<${Page} title=${t("sandboxes.title")}>
    <${Live} /><${Egress} /><${Rules} /><${SelfTest} />
  <//>`;
}

const address = (part, id) => "#sandboxes/" + part + "/" + encodeURIComponent(id);

const used = (now, limit, form) => (now ? t("sandboxes.used", { now: form(now), limit: form(limit) }) : t("sandboxes.limit", { limit: form(limit) }));

function Live() {
  const list = useLive("/sandboxes", "sandboxes", "halt");
  return html`<${Section} title=${t("sandboxes.live")}><${Loaded} of=${list}>${(all) => html`<${Table} caption=${t("sandboxes.live")} rows=${all} keyOf=${(s) => s.id} empty=${t("sandboxes.none")} columns=${[
    { title: t("sandboxes.session"), cell: (s) => html`<${Text}>${s.session}<//> <div class="small"><code>${s.id.slice(0, 12)}</code> ${s.name || t("sandboxes.usual")}</div>` },
    { title: t("sandboxes.image"), cell: (s) => html`<${Text}>${s.image}<//> <div class="small"><${Text}>${s.driver || t("sandboxes.usualEngine")}<//> ${s.runtime}</div>` },
    { title: t("sandboxes.network"), cell: (s) => html`<${Badge} kind=${s.network === "none" ? "good" : s.network === "allowlist" ? "" : "warn"}>${s.network}<//>` },
    { title: t("sandboxes.since"), cell: (s) => html`<${When} at=${s.since} /> ${!s.idle && html`<${Badge} kind="info">${t("sandboxes.busy")}<//>`}` },
    { title: t("sandboxes.memory"), number: true, cell: (s) => used(s.memory, s.memory_limit, bytes) },
    { title: t("sandboxes.tasks"), number: true, cell: (s) => used(s.tasks, s.tasks_limit, number) },
    { title: t("sandboxes.processes"), cell: (s) => s.processes.map((p) => html`<div key=${p.id}><${Badge} kind=${p.running ? "info" : ""}>${p.id}<//> <code><${Text}>${p.command}<//></code></div>`) },
    { title: t("sandboxes.look"), cell: (s) => html`<div><a href=${address("files", s.id)}>${t("sandboxes.files")}</a></div><div><a href=${address("terminal", s.id)}>${t("sandboxes.terminal")}</a></div><div><a href=${"#previews/" + encodeURIComponent(s.session.slice(0, s.session.lastIndexOf(":")))}>${t("sandboxes.ports")}</a></div>` },
  ]} />`}<//><//>`;
}
