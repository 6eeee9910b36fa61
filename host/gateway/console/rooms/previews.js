// Previews: the ports that programs in sandboxes listen on, and those that are shown. What a preview shows is a program's: it is never in this page.

import { at, send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { Badge, Button, Dialog, Loaded, Notice, Page, Section, Table, Text, When } from "../lib/parts.js";
import { t } from "../lib/text.js";
import { html, useSignal } from "../lib/ui.js";

export function Room({ rest: [scope] }) {
  const ports = useLive("/ports" + (scope ? "?scope=" + encodeURIComponent(scope) : ""), "sandboxes", "halt");
  const open = useLive("/previews", "sandboxes", "halt");
  const ready = useSignal(null); // a preview with a link
  const link = async (path, body) => {
    ready.value = await send("POST", path, body);
    open.again();
  };
  return html`<${Page} title=${t("previews.title")} lead=${t("previews.lead")} actions=${html`<${Button} does=${() => Promise.all([ports.again(), open.again()])}>${t("previews.again")}<//>`}>
    <${Section} title=${t("previews.ports")}>
      ${scope && html`<p class="small">${t("previews.only", { scope })} <a href="#previews">${t("previews.all")}</a></p>`}
      <${Loaded} of=${ports}>${(all) => html`<${Table} caption=${t("previews.ports")} rows=${all} keyOf=${(p) => p.sandbox} empty=${t("previews.noPorts")} columns=${[
        { title: t("previews.session"), cell: (p) => html`<${Text}>${p.session}<//> <div class="small">${p.name}</div>` },
        { title: t("previews.listening"), cell: (p) => html`<${Ports} of=${p} open=${(port) => link("/previews", { sandbox: p.sandbox, port })} />` },
      ]} />`}<//>
    <//>
    <${Section} title=${t("previews.open")}><${Loaded} of=${open}>${(all) => html`<${Table} caption=${t("previews.open")} rows=${all} keyOf=${(p) => p.id} empty=${t("previews.none")} columns=${[
      { title: t("previews.session"), cell: (p) => html`<${Text}>${p.session}<//>` },
      { title: t("previews.port"), number: true, cell: (p) => p.port },
      { title: t("previews.by"), cell: (p) => html`<${Text}>${p.by}<//>` },
      { title: t("previews.until"), cell: (p) => html`<${When} at=${p.expires} />` },
      { title: t("shell.actions"), cell: (p) => html`<div class="buttons"><${Button} does=${() => link(at`/previews/${p.id}/link`)}>${t("previews.show")}<//>
        <${Button} kind="quiet" does=${async () => { await send("DELETE", at`/previews/${p.id}`); await open.again(); }}>${t("previews.close")}<//></div>` },
    ]} />`}<//><//>
    ${ready.value && html`<${Ready} of=${ready.value} close=${() => { ready.value = null; }} />`}
  <//>`;
}

function Ports({ of: p, open }) {
  if (p.refused) return html`<${Text}>${p.refused}<//>`;
  if (!p.ports.length) return html`<span class="small">${t("previews.nothing")}</span>`;
  return html`<div class="buttons">${p.ports.map((port) => html`<${Button} key=${port} does=${() => open(port)}>${t("previews.showPort", { port })}<//>`)}${p.more && html`<${Badge}>${t("previews.more")}<//>`}</div>`;
}

// Ready has the link, which is good once: it disappears when it is followed.
function Ready({ of: p, close }) {
  const link = here(p.link);
  return html`<${Dialog} title=${t("previews.ready", { port: p.port })} close=${close} leave=${t("previews.leave")}
      actions=${link && html`<a class="button main" href=${link} target="_blank" rel="noopener noreferrer" onClick=${close}>${t("previews.go")}</a>`}>
    ${link ? html`<p>${t("previews.warning")}</p>` : html`<${Notice} kind="warn">${t("previews.elsewhere")}<//>`}
  <//>`;
}

// here is a link as this browser reaches it: names below localhost are its own machine, on the port that leads to the host. It is empty if
// they lead nowhere.
function here(link) {
  const to = new URL(link);
  if (!to.hostname.endsWith(".localhost")) return to.href;
  if (!["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)) return "";
  to.port = location.port;
  return to.href;
}
