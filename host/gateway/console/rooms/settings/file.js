// The whole text of flynn.toml.

import { Button, Field, Section } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";

export function WholeFile({ of: c, ask }) {
  const draft = useSignal(null);
  const text = draft.value ?? c.text;
  return html`<${Section} title=${t("settings.file")}>
    <${Field} label=${c.path} help=${t("settings.fileHelp")} rows=${24} value=${text} spellcheck=${false} readonly=${c.read_only ? true : undefined} change=${(v) => { draft.value = v; }} />
    <div class="buttons">
      ${draft.value !== null && html`<${Button} does=${() => { draft.value = null; }}>${t("settings.discard")}<//>`}
      ${!c.read_only && html`<${Button} kind="main" does=${() => ask({ text: c.text.includes("\r\n") ? text.replace(/\r?\n/g, "\r\n") : text })}>${t("settings.review")}<//>`}
    </div><//>`;
}
