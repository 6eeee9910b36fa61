// Secrets are set, and never shown.

import { at, send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Button, Field, Loaded, Notice, Section, Table, Text } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";

export function Secrets() {
  const secrets = useLive("/secrets", "configuration");
  const name = useSignal("");
  const value = useSignal("");
  const stored = useSignal(null);
  const store = async () => {
    stored.value = await send("PUT", at`/secrets/${name.value}`, { value: value.value }, { wait: 125000 });
    value.value = "";
    secrets.again();
  };
  return html`<${Section} title=${t("settings.secrets")}>
    <p class="small">${t("settings.secretsLead")}</p>
    <${Loaded} of=${secrets}>${(list) => html`<${Table} caption=${t("settings.secrets")} rows=${list} keyOf=${(s) => s.name} empty=${t("settings.noSecrets")} columns=${[
      { title: t("settings.name"), cell: (s) => html`<code>${s.name}</code>` },
      { title: t("settings.usedBy"), cell: (s) => html`<${Text}>${s.used_by.join(", ") || t("settings.nobody")}<//>` },
      { title: t("settings.act"), cell: (s) => html`<${Button} kind="quiet" does=${() => { name.value = s.name; }}>${t("settings.replace")}<//>` },
    ]} />`}<//>
    <form class="form" onSubmit=${(e) => e.preventDefault()}>
      <${Field} label=${t("settings.secretName")} help=${t("settings.secretNameHelp")} value=${name.value} change=${(v) => { name.value = v; }} autocomplete="off" spellcheck=${false} />
      <${Field} label=${t("settings.secretValue")} kind="password" value=${value.value} change=${(v) => { value.value = v; }} autocomplete="new-password" />
      <${Button} kind="main" does=${store}>${t("settings.store")}<//>
    </form>
    ${stored.value && html`<${Notice} kind="good">${t("settings.stored", stored.value)}<//>`}
  <//>`;
}
