// One channel: its process, what holds it in, its log, its settings and secrets.

import { at, send } from "../../lib/api.js";
import { draftOf } from "../../lib/fields.js";
import { useLive } from "../../lib/live.js";
import { Badge, Button, Danger, Empty, Facts, Field, Loaded, Notice, Section, Table, Text, When } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { elsewhere, faultsOf, Fields, settingsOf } from "./form.js";
import { Log } from "./log.js";
import { Login } from "./login.js";
import { kindOf } from "./state.js";

const patience = 125000; // milliseconds

export function Channel({ of: c, again, open }) {
  const plugins = useLive("/plugins", "plugins");
  if (!c) return html`<${Empty}>${t("channels.gone")}<//>`;
  const change = async (body) => {
    await send("PATCH", at`/channels/${c.name}`, body, { wait: patience });
    again();
  };
  const remove = async () => {
    await send("DELETE", at`/channels/${c.name}`, undefined, { wait: patience });
    open();
    again();
  };
  const process = plugins.value?.find((p) => p.name === c.name);
  return html`<${Section} title=${c.name} actions=${html`<span class="buttons">
      <${Button} does=${() => change({ enabled: !c.enabled })}>${c.enabled ? t("channels.disable") : t("channels.enable")}<//>
      ${process && html`<${Button} does=${() => send("POST", at`/plugins/${c.name}/restart`)} title=${t("channels.restartLead")}>${t("channels.restart")}<//>`}
      <${Danger} word=${t("channels.remove")} question=${t("channels.removeQuestion", c)} does=${remove}>${t("channels.remove")}<//></span>`}>
    <${Facts} of=${[
      [t("channels.state"), html`<${Badge} kind=${kindOf(c)}>${c.state}<//>`],
      [t("channels.detail"), c.detail && html`<${Text}>${c.detail}<//>`],
      [t("channels.plugin"), html`<${Text}>${c.plugin}<//>`],
      [t("channels.access"), c.access],
      [t("channels.senders"), c.senders === "proved" ? t("channels.proved") : t("channels.claimed")],
    ]} /><//>
    ${c.login && html`<${Login} instance=${c.name} />`}
    ${process && html`<${Process} of=${process} />`}
    <${Settings} of=${c} change=${change} />
    ${c.secrets?.length > 0 && html`<${Secrets} of=${c} again=${again} />`}
    ${process && html`<${Log} instance=${c.name} />`}`;
}

function Process({ of: p }) {
  return html`<${Section} title=${t("channels.facts")}><${Facts} of=${[
    [t("channels.state"), p.state], [t("channels.since"), html`<${When} at=${p.since} />`], [t("channels.version"), p.version], [t("channels.pid"), p.pid], [t("channels.restarts"), p.restarts],
    [t("channels.lastError"), p.last_error && html`<${Text}>${p.last_error}<//>`],
  ]} /><//>
  <${Section} title=${t("channels.containment")}><${Table} caption=${t("channels.containment")} rows=${p.containment ?? []} keyOf=${(m) => m.name} empty=${t("channels.noContainment")} columns=${[
    { title: t("channels.measure"), cell: (m) => m.name },
    { title: t("channels.state"), cell: (m) => html`<${Badge} kind=${m.on ? "good" : "warn"}>${m.on ? t("channels.on") : t("channels.off")}<//>` },
    { title: t("channels.detail"), cell: (m) => html`<${Text}>${m.detail}<//>` },
  ]} /><//>`;
}

function Settings({ of: c, change }) {
  const kinds = useLive("/channels/kinds", "plugins");
  const keys = useLive("/configuration/keys?section=channels", "configuration");
  const drafts = useSignal({});
  const faults = useSignal({});
  const saved = useSignal(false);
  return html`<${Section} title=${t("channels.settings")}><${Loaded} of=${kinds}>${(list) => {
    const fields = (list.find((k) => k.plugin === c.plugin)?.fields ?? []).filter((f) => !f.secret);
    const set = Object.fromEntries((keys.value ?? []).filter((k) => k.key[1] === c.name && k.key.length === 3 && k.set).map((k) => [k.key[2], k.value]));
    const shown = Object.fromEntries(fields.map((f) => [f.name, drafts.value[f.name] ?? draftOf(f, set[f.name])]));
    const save = async () => {
      const read = settingsOf(fields, drafts.value, set);
      faults.value = read.faults;
      if (Object.keys(read.faults).length) return;
      try {
        await change({ settings: read.settings });
        drafts.value = {};
        saved.value = true;
      } catch (error) {
        faults.value = faultsOf(error);
      }
    };
    const edit = (name, draft) => {
      drafts.value = { ...drafts.value, [name]: draft };
      saved.value = false;
    };
    const parts = { drafts: shown, change: edit, faults: faults.value };
    return html`<form class="form" onSubmit=${(e) => e.preventDefault()}>
      <${Fields} fields=${fields.filter((f) => !f.host)} ...${parts} />
      <details><summary>${t("channels.host")}</summary><${Fields} fields=${fields.filter((f) => f.host && f.name !== "enabled")} ...${parts} /></details>
      ${elsewhere(faults.value, fields).map((x) => html`<${Notice} key=${x} kind="bad"><${Text}>${x}<//><//>`)}
      <${Button} does=${save} disabled=${Object.keys(drafts.value).length === 0 || undefined}>${t("channels.save")}<//>
      ${saved.value && html`<${Notice} kind="good">${t("channels.saved")}<//>`}</form>`;
  }}<//><//>`;
}

function Secrets({ of: c, again }) {
  return html`<${Section} title=${t("channels.secrets")}><ul class="lines">${c.secrets.map((s) => html`<${Secret} key=${s.name} of=${s} channel=${c} again=${again} />`)}</ul><//>`;
}

function Secret({ of: s, channel, again }) {
  const value = useSignal("");
  const store = async () => {
    const name = s.stored || channel.name + "_" + s.name;
    const kept = await send("PUT", at`/secrets/${name}`, { value: value.value }, { wait: patience });
    value.value = "";
    if (!s.stored) await send("PATCH", at`/channels/${channel.name}`, { settings: { [s.name + "_file"]: kept.file } }, { wait: patience });
    again();
  };
  return html`<li><span class="name">${s.name}</span> <${Badge} kind=${s.set ? "good" : ""}>${s.set ? t("channels.secretSet") : t("channels.secretMissing")}<//>
    <form class="filters" onSubmit=${(e) => e.preventDefault()}><${Field} label=${t("channels.secretNew", s)} kind="password" value=${value.value} change=${(v) => { value.value = v; }} autocomplete="new-password" />
    ${value.value && html`<${Button} does=${store}>${t("channels.store")}<//>`}</form></li>`;
}
