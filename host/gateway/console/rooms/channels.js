// Channels: over which platforms people write, the plugins behind them, and what is wrong with them.

import { at, send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { Badge, Button, Loaded, Page, Section, Table, Text } from "../lib/parts.js";
import { t } from "../lib/text.js";
import { html } from "../lib/ui.js";
import { Add } from "./channels/add.js";
import { Channel } from "./channels/channel.js";
import { Plugins } from "./channels/plugins.js";
import { kindOf } from "./channels/state.js";

// The names of parts of this room begin with a letter that no channel's name begins with.
const adding = "+new";
const managing = "+plugins";

export function Room({ rest, go }) {
  const channels = useLive("/channels", "plugins", "configuration");
  const open = (...to) => go("channels", ...to);
  const [part] = rest;
  return html`<${Page} title=${t("channels.title")} lead=${t("channels.lead")}>
    ${part && html`<p><a href="#channels">← ${t("channels.back")}</a></p>`}
    ${part === adding ? html`<${Add} plugin=${rest[1]} open=${open} again=${channels.again} />`
      : part === managing ? html`<${Plugins} />`
      : html`<${Loaded} of=${channels}>${(list) => part ? html`<${Channel} key=${part} of=${list.find((c) => c.name === part)} again=${channels.again} open=${open} />` : html`<${List} list=${list} again=${channels.again} />`}<//>`}
  <//>`;
}

const most = 160; // characters of what a plugin says; its own page shows all

const clipped = (text = "") => (text.length > most ? text.slice(0, most) + "…" : text);

function List({ list, again }) {
  const enable = async (c) => {
    await send("PATCH", at`/channels/${c.name}`, { enabled: !c.enabled }, { wait: 125000 });
    again();
  };
  return html`<${Section} title=${t("channels.list")} actions=${html`<span class="buttons">
      <a class="button" href=${"#channels/" + encodeURIComponent(managing)}>${t("channels.plugins")}</a>
      <a class="button main" href=${"#channels/" + encodeURIComponent(adding)}>${t("channels.add")}</a></span>`}><${Table} caption=${t("channels.list")} rows=${list} keyOf=${(c) => c.name} empty=${t("channels.none")} columns=${[
    { title: t("channels.name"), cell: (c) => html`<a href=${"#channels/" + encodeURIComponent(c.name)}><${Text}>${c.name}<//></a>` },
    { title: t("channels.plugin"), cell: (c) => html`<${Text}>${c.plugin}<//>` },
    { title: t("channels.state"), cell: (c) => html`<${Badge} kind=${kindOf(c)}>${c.state}<//>` },
    { title: t("channels.detail"), cell: (c) => html`<${Text}>${clipped(c.detail)}<//>` },
    { title: t("channels.access"), cell: (c) => c.access },
    { title: t("channels.senders"), cell: (c) => (c.senders === "proved" ? t("channels.proved") : t("channels.claimed")) },
    { title: t("settings.act"), cell: (c) => html`<${Button} kind="quiet" does=${() => enable(c)} aria-label=${(c.enabled ? t("channels.disable") : t("channels.enable")) + " " + c.name}>${c.enabled ? t("channels.disable") : t("channels.enable")}<//>` },
  ]} /><//>`;
}
