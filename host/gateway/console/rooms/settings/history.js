// The texts that flynn.toml had, to compare and to bring back.

import { useLive } from "../../lib/live.js";
import { Badge, Button, Loaded, Section, Table, When } from "../../lib/parts.js";
import { bytes, t } from "../../lib/text.js";
import { html } from "../../lib/ui.js";

export function History({ ask }) {
  const former = useLive("/configuration/history", "configuration");
  return html`<${Section} title=${t("settings.history")}>
    <p class="small">${t("settings.historyLead")}</p>
    <${Loaded} of=${former}>${(list) => html`<${Table} caption=${t("settings.history")} rows=${list} keyOf=${(f) => f.id} empty=${t("settings.noHistory")} columns=${[
      { title: t("settings.since"), cell: (f) => html`<${When} at=${f.since} />` },
      { title: t("settings.size"), cell: (f) => bytes(f.bytes), number: true },
      { title: t("settings.state"), cell: (f) => f.now ? html`<${Badge} kind="good">${t("settings.now")}<//>` : f.refused ? html`<${Badge} kind="bad">${t("settings.refused")}<//>` : "" },
      { title: t("settings.act"), cell: (f) => !f.now && html`<${Button} kind="quiet" does=${() => ask({ former: f.id })}>${t("settings.compare")}<//>` },
    ]} />`}<//><//>`;
}
