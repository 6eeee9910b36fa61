// Hosts: those that share a store, what each works on, and what they took from dead ones.

import { at, send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { Badge, Button, Danger, Loaded, Notice, Page, Section, Table, Text, When } from "../lib/parts.js";
import { number, t } from "../lib/text.js";
import { html, useEffect } from "../lib/ui.js";

const poll = 3000; // milliseconds: no event tells that a host has died

export function Room() {
  const cluster = useLive("/cluster");
  useEffect(() => {
    const timer = setInterval(cluster.again, poll);
    return () => clearInterval(timer);
  }, [cluster.again]);
  const change = async (method, path) => {
    await send(method, path);
    await cluster.again();
  };
  return html`<${Page} title=${t("hosts.title")} lead=${t("hosts.lead")}><${Loaded} of=${cluster}>${(c) => (c.shared ? html`
    <${Differing} of=${c} accept=${() => change("POST", "/cluster/configuration")} />
    <${Section} title=${t("hosts.all")}><${Table} caption=${t("hosts.all")} rows=${c.hosts} keyOf=${(h) => h.name} columns=${[
      { title: t("hosts.name"), cell: (h) => html`<${Text}>${h.name}<//> ${h.name === c.this && html`<${Badge} kind="info">${t("hosts.this")}<//>`} <div class="small"><${Text}>${h.address ?? ""}<//> <${Text}>${h.version ?? ""}<//></div>` },
      { title: t("hosts.state"), cell: (h) => html`<${State} of=${h} />` },
      { title: t("hosts.conversations"), number: true, cell: (h) => number(h.conversations) },
      { title: t("hosts.channels"), number: true, cell: (h) => number(h.channels) },
      { title: t("hosts.tasks"), number: true, cell: (h) => number(h.tasks) },
      { title: t("shell.actions"), cell: (h) => html`<${Actions} of=${h} change=${change} />` },
    ]} /><//>
    <${Section} title=${t("hosts.takeovers")}><${Table} caption=${t("hosts.takeovers")} rows=${c.takeovers} keyOf=${(v) => v.last + v.host + v.from} empty=${t("hosts.noTakeovers")} columns=${[
      { title: t("hosts.when"), cell: (v) => html`<${When} at=${v.last} />` },
      { title: t("hosts.from"), cell: (v) => html`<${Text}>${v.from}<//>` },
      { title: t("hosts.by"), cell: (v) => html`<${Text}>${v.host}<//>` },
      { title: t("hosts.keys"), number: true, cell: (v) => number(v.keys) },
    ]} /><//>` : html`<${Notice}>${t("hosts.alone")}<//>`)}<//><//>`;
}

function State({ of: h }) {
  return html`<${Badge} kind=${h.alive ? "good" : "bad"}>${t(h.alive ? "hosts.alive" : "hosts.dead")}<//> <${When} at=${h.since} />
    ${h.idle && html`<${Badge} kind="warn">${t(h.idle === "drained" ? "hosts.drained" : "hosts.idle")}<//>`}
    ${!h.idle && h.alive && h.differs && html`<${Badge} kind="warn">${t("hosts.differs")}<//>`}
    ${h.reached && html`<${Badge} kind=${h.reached === "yes" ? "good" : "warn"}>${t(h.reached === "yes" ? "hosts.reached" : "hosts.unreached")}<//>`}
    ${h.reached === "no" && html`<div class="small"><${Text}>${h.peer}<//> <${Text}>${h.unreached}<//></div>`}`;
}

function Actions({ of: h, change }) {
  const path = at`/cluster/hosts/${h.name}`;
  return html`<div class="buttons">
    ${h.idle === "drained" ? html`<${Button} does=${() => change("DELETE", path + "/drain")}>${t("hosts.undo")}<//>` : html`<${Danger} question=${t("hosts.sureDrain", { name: h.name })} word=${t("hosts.drain")} does=${() => change("PUT", path + "/drain")}>${t("hosts.drain")}<//>`}
    ${!h.alive && html`<${Danger} question=${t("hosts.sureRemove", { name: h.name })} word=${t("hosts.remove")} does=${() => change("DELETE", path)}>${t("hosts.remove")}<//>`}
  </div>`;
}

// Differing says what to do if this host runs with something else than the others agree on.
function Differing({ of: c, accept }) {
  if (c.hosts.find((h) => h.name === c.this)?.idle !== "differs") return null;
  return html`<${Notice} kind="warn">${t("hosts.thisDiffers")}<//>
    <${Danger} question=${t("hosts.sureAccept")} word=${t("hosts.accept")} does=${accept}>${t("hosts.accept")}<//>`;
}
