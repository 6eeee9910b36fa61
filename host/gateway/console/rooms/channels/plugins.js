// The plugins on disk: their versions, what they may use, and upgrades that are taken back when they fail.

import { at, send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Badge, Button, Danger, Facts, Field, Loaded, Notice, Section, Text, When } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";

const patience = 670000; // milliseconds; a version is tried before it is active

export function Plugins() {
  const plugins = useLive("/installed-plugins", "plugins", "configuration");
  return html`<${Section} title=${t("channels.installed")}>
    <${Loaded} of=${plugins}>${(list) => (list.length ? list.map((p) => html`<${Plugin} key=${p.name} of=${p} again=${plugins.again} />`) : html`<p>${t("channels.noPlugins")}</p>`)}<//><//>
    <${Section} title=${t("channels.install")}><${Source} word=${t("channels.install")} does=${async (from) => { await send("POST", "/installed-plugins", from, { wait: patience }); plugins.again(); }} /><//>`;
}

// Source asks where a plugin comes from.
function Source({ word, does }) {
  const from = useSignal("");
  const near = useSignal(false);
  const go = async () => {
    await does({ from: from.value, allow_private: near.value });
    from.value = "";
  };
  return html`<form class="form" onSubmit=${(e) => e.preventDefault()}>
    <${Field} label=${t("channels.from")} help=${t("channels.fromHelp")} value=${from.value} change=${(v) => { from.value = v; }} spellcheck=${false} />
    ${/^https?:/.test(from.value) && html`<${Field} kind="checkbox" label=${t("channels.private")} value=${near.value} change=${(v) => { near.value = v; }} />`}
    <${Button} does=${go} disabled=${from.value ? undefined : true}>${word}<//></form>`;
}

function Plugin({ of: p, again }) {
  const said = useSignal(null);
  const upgrading = useSignal(false);
  const path = at`/installed-plugins/${p.name}`;
  const act = (method, tail, body) => async () => {
    await send(method, path + tail, body, { wait: patience });
    again();
  };
  const verify = async () => { said.value = await send("POST", path + "/verify"); };
  const before = p.versions.find((v) => !v.active && v.version !== p.next);
  const asks = ["network", "read", "write", "host", "env"].flatMap((what) => p.permissions[what] ?? []).join(", ");
  return html`<article class="finding" data-plugin=${p.name}>
    <h3><${Text}>${p.name}<//> ${p.version} ${!p.installed && html`<${Badge}>${t("channels.notUsed")}<//>`} ${p.disabled && html`<${Badge} kind="warn">${t("channels.disabled")}<//>`}</h3>
    ${p.problem && html`<${Notice} kind="bad"><${Text}>${p.problem}<//><//>`}
    <${Facts} of=${[
      ["", p.description && html`<${Text}>${p.description}<//>`],
      [t("channels.uses"), p.instances.join(", ")],
      [t("channels.source"), p.source && html`<${Text}>${p.source}<//>`],
      [t("channels.signed"), p.installed && (p.signer ? html`<code>${p.signer}</code>` : t("channels.unsigned"))],
      [t("channels.asks"), asks && html`<${Text}>${asks}<//>`],
      [t("channels.versions"), p.installed && p.versions.map((v) => html`<span class="part" key=${v.version}>${v.version} ${v.active && html`<${Badge} kind="good">${t("channels.active")}<//>`} <${When} at=${v.installed} /></span>`)],
      [t("channels.rejected"), p.rejected.length > 0 && p.rejected.map((r) => html`<p key=${r.version}>${r.version}: <${Text}>${r.why}<//> <${When} at=${r.at} /></p>`)],
    ]} />
    ${said.value && html`<${Notice} kind=${said.value.ok ? "good" : "bad"}><${Text}>${said.value.ok ? t("channels.verified") : said.value.problem}<//><//>`}
    <p class="buttons">
      <${Button} does=${act("PATCH", "", { enabled: p.disabled })}>${p.disabled ? t("channels.enable") : t("channels.disable")}<//>
      ${p.installed && html`<${Button} does=${verify}>${t("channels.verify")}<//>
        <${Button} does=${() => { upgrading.value = !upgrading.value; }} aria-expanded=${String(upgrading.value)}>${t("channels.upgrade")}<//>
        ${before && html`<${Danger} word=${t("channels.rollback")} question=${t("channels.rollbackQuestion", { name: p.name, version: before.version })} does=${act("POST", "/rollback")}>${t("channels.rollback")}<//>`}
        <${Danger} word=${t("channels.uninstall")} question=${t("channels.uninstallQuestion", p)} does=${act("DELETE", "")}>${t("channels.uninstall")}<//>`}</p>
    ${upgrading.value && html`<${Source} word=${t("channels.upgrade")} does=${async (from) => { await act("POST", "/upgrade", from)(); upgrading.value = false; }} />`}
  </article>`;
}
