// Adding a channel: its platform, then a form, then the account is tried, and only one that works is added.

import { send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Button, Empty, Field, Loaded, Notice, Section, Text } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { elsewhere, faultsOf, Fields, settingsOf } from "./form.js";

const patience = 670000; // milliseconds; a plugin in a clone is built first

export function Add({ plugin, open, again }) {
  const kinds = useLive("/channels/kinds", "plugins");
  return html`<${Loaded} of=${kinds}>${(list) => {
    const kind = list.find((k) => k.plugin === plugin);
    return kind ? html`<${Form} key=${plugin} kind=${kind} open=${open} again=${again} />` : html`<${Kinds} list=${list} />`;
  }}<//>`;
}

function Kinds({ list }) {
  if (!list.length) return html`<${Empty}>${t("channels.noKinds")}<//>`;
  return html`<${Section} title=${t("channels.kind")}><ul class="kinds">${list.map((k) => html`<li key=${k.plugin}><a href=${"#channels/%2Bnew/" + encodeURIComponent(k.plugin)}>
    <strong><${Text}>${k.plugin}<//></strong> <span class="small">${k.version}</span><br/><${Text}>${k.description}<//>${!k.installed && html`<br/><span class="small">${t("channels.comes")}</span>`}</a></li>`)}</ul><//>`;
}

function Form({ kind, open, again }) {
  const name = useSignal(kind.plugin);
  const drafts = useSignal({});
  const faults = useSignal({});
  const account = useSignal(null);
  const trying = useSignal(false);
  const change = (field, draft) => {
    drafts.value = { ...drafts.value, [field]: draft };
    account.value = null;
  };
  const ask = async (path) => {
    const read = settingsOf(kind.fields, drafts.value);
    faults.value = read.faults;
    if (Object.keys(read.faults).length) return null;
    trying.value = true;
    try {
      return await send("POST", path, { plugin: kind.plugin, name: name.value, settings: read.settings, secrets: read.secrets }, { wait: patience });
    } catch (error) {
      faults.value = faultsOf(error);
      return null;
    } finally {
      trying.value = false;
    }
  };
  const prove = async () => { account.value = await ask("/channels/prove"); };
  const add = async () => {
    if (!(await ask("/channels"))) return;
    again();
    open(name.value);
  };
  const own = kind.fields.filter((f) => !f.host && (f.secret || f.required || important(f)));
  const more = kind.fields.filter((f) => !f.host && !own.includes(f));
  const host = kind.fields.filter((f) => f.host);
  const shown = { drafts: drafts.value, change, faults: faults.value };
  return html`<${Section} title=${kind.description || kind.plugin}>
    <form class="form" onSubmit=${(e) => { e.preventDefault(); }}>
      <${Field} label=${t("channels.name")} help=${t("channels.nameHelp")} value=${name.value} change=${(v) => { name.value = v; account.value = null; }} error=${faults.value.name} />
      <${Fields} fields=${own} ...${shown} />
      ${more.length > 0 && html`<details open=${!own.length}><summary>${t("channels.more")}</summary><${Fields} fields=${more} ...${shown} /></details>`}
      <details><summary>${t("channels.host")}</summary><${Fields} fields=${host} ...${shown} /></details>
      ${elsewhere(faults.value, kind.fields).filter((x) => x !== "name: " + faults.value.name).map((x) => html`<${Notice} key=${x} kind="bad"><${Text}>${x}<//><//>`)}
      <div role="status">${trying.value && html`<p class="small">${t("channels.proving")}</p>`}
        ${account.value && html`<${Notice} kind="good"><${Text}>${account.value.login ? t("channels.worksLogin") : t("channels.works", account.value)}<//><//>`}</div>
      ${account.value ? html`<${Button} kind="main" does=${add}>${t("channels.addNow")}<//>` : html`<${Button} kind="main" does=${prove}>${t("channels.prove")}<//>`}
    </form><//>`;
}

// important are the settings without which few channels work; the schemas of plugins seldom say so.
const important = (f) => f.type === "text" && !f.default && !f.enum?.length;
