// The code that links an account to a device. It is shown when the person asks, because anybody who sees it can take the account over.

import { at } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Button, Loaded, Notice, Section } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";

const margin = 4;

export function Login({ instance }) {
  const shown = useSignal(false);
  return html`<${Section} title=${t("channels.loginCode")}>
    <${Notice} kind="warn">${t("channels.login")}<//>
    <p><${Button} does=${() => { shown.value = !shown.value; }}>${shown.value ? t("channels.loginHide") : t("channels.loginShow")}<//></p>
    ${shown.value && html`<${Code} instance=${instance} />`}<//>`;
}

function Code({ instance }) {
  const login = useLive(at`/plugins/${instance}/login`, "plugins");
  return html`<${Loaded} of=${login}>${({ rows }) => {
    if (!rows.length) return html`<p>${t("channels.loginNone")}</p>`;
    const size = rows.length + 2 * margin;
    let path = "";
    rows.forEach((row, y) => [...row].forEach((dark, x) => { if (dark === "1") path += `M${x + margin} ${y + margin}h1v1h-1z`; }));
    return html`<svg class="qr" viewBox=${`0 0 ${size} ${size}`} role="img" aria-label=${t("channels.loginCode")} shape-rendering="crispEdges"><path d=${path} /></svg>`;
  }}<//>`;
}
