// The self-test: attacks on a sandbox from inside, with what to change where one succeeds.

import { send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Badge, Danger, Facts, Loaded, Notice, Section, Table, Text, When } from "../../lib/parts.js";
import { n, number, t } from "../../lib/text.js";
import { html, useEffect } from "../../lib/ui.js";

const often = 2000; // milliseconds between two looks while it runs

export function SelfTest() {
  const state = useLive("/sandboxes/selftest", "sandboxes");
  const running = state.value?.running;
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(state.again, often);
    return () => clearInterval(timer);
  }, [running]);
  return html`<${Section} title=${t("sandboxes.selftest")} actions=${!running && html`<${Danger} word=${t("sandboxes.start")} question=${t("sandboxes.startSure")}
      does=${async () => { await send("POST", "/sandboxes/selftest", {}); state.again(); }}>${t("sandboxes.start")}<//>`}>
    <${Loaded} of=${state}>${(s) => html`<${Result} of=${s} />`}<//>
  <//>`;
}

function Result({ of: s }) {
  if (!s.began) return html`<p class="small">${t("sandboxes.never")}</p>`;
  const rows = [...s.probes].sort((a, b) => rank(a) - rank(b));
  return html`${s.running && html`<${Notice}>${t("sandboxes.running", { done: number(s.probes.length), of: number(s.of) })}<//>`}
    ${s.failure && html`<${Notice} kind="bad"><${Text}>${s.failure}<//><//>`}
    ${!s.running && !s.failure && html`<${Notice} kind=${s.failed ? "bad" : s.weak ? "warn" : "good"}>${t("sandboxes.result", { passed: number(s.passed), weak: number(s.weak), failed: number(s.failed) })}<//>`}
    <${Facts} of=${[
      [t("sandboxes.name"), s.sandbox || t("sandboxes.usual")], [t("sandboxes.image"), s.image], [t("sandboxes.engine"), s.engine],
      [t("sandboxes.began"), html`<${When} at=${s.began} />`], [t("sandboxes.by"), html`<${Text}>${s.by ?? ""}<//>`],
    ]} />
    <details open=${s.failed > 0 || s.weak > 0}><summary>${n("sandboxes.attacks", rows.length)}</summary>
      <${Table} caption=${t("sandboxes.selftest")} rows=${rows} keyOf=${(p) => p.name} empty=${t("sandboxes.noRows")} columns=${[
        { title: t("sandboxes.attack"), cell: (p) => html`${p.name} <div class="small">${p.why}</div>` },
        { title: t("sandboxes.held"), cell: (p) => html`<${Badge} kind=${{ pass: "good", weak: "warn" }[p.status] ?? "bad"}>${p.status}<//>` },
        { title: t("sandboxes.detail"), cell: (p) => html`<${Text}>${p.detail}<//> ${p.setting && html`<div class="trouble"><${Text}>${p.setting}<//></div>`}` },
      ]} /></details>`;
}

const rank = (p) => ({ fail: 0, weak: 1 })[p.status] ?? 2;
