// The doctor: what is wrong or weak, why, and how it is mended; what needs no person is mended by a button.

import { at, send } from "../lib/api.js";
import { Badge, Button, Facts, Notice, Page, Section, Text } from "../lib/parts.js";
import { n, t } from "../lib/text.js";
import { html, useSignal } from "../lib/ui.js";

const patience = 65000; // milliseconds

export function Room() {
  const found = useSignal(null);
  const looking = useSignal(false);
  const mended = useSignal(null);
  const look = async () => {
    looking.value = true;
    try {
      found.value = await send("POST", "/doctor", undefined, { wait: patience });
    } finally {
      looking.value = false;
    }
  };
  const mend = async (code) => {
    mended.value = (await send("POST", at`/doctor/${code}/mend`)).length;
    await look();
  };
  const f = found.value;
  return html`<${Page} title=${t("doctor.title")} lead=${t("doctor.lead")} actions=${html`<${Button} kind="main" does=${look}>${t("doctor.look")}<//>`}>
    <div role="status">${looking.value && html`<p class="small">${t("doctor.looking")}</p>`}</div>
    ${mended.value !== null && html`<${Notice} kind="good">${n("doctor.fixed", mended.value)}<//>`}
    ${f && (f.findings.length ? html`<p>${n("doctor.counted", f.findings.length)}</p>` : html`<${Notice} kind="good">${t("doctor.well")}<//>`)}
    ${f && areas(f.findings).map(([area, list]) => html`<${Section} key=${area} title=${area}>${list.map((x, i) => html`<${Finding} key=${x.code + i} of=${x} mend=${mend} />`)}<//>`)}
    ${f && [["doctor.unexamined", f.unexamined], ["doctor.weaker", f.weaker]].map(([title, list]) => list.length > 0 && html`<${Section} key=${title} title=${t(title)}>
      <ul class="lines">${list.map((x) => html`<li key=${x}><${Text}>${x}<//></li>`)}</ul><//>`)}
  <//>`;
}

function areas(findings) {
  const found = new Map();
  for (const f of findings) found.set(f.area, [...(found.get(f.area) ?? []), f]);
  return [...found];
}

function Finding({ of: f, mend }) {
  const section = f.key?.split(".")[0];
  return html`<article class="finding" data-code=${f.code}>
    <h3><${Badge} kind=${f.severity === "wrong" ? "bad" : "warn"}>${t("doctor." + f.severity)}<//> <${Text}>${f.what}<//></h3>
    <${Facts} of=${[
      [t("doctor.why"), html`<${Text}>${f.why}<//>`],
      [t("doctor.mend"), f.mend && html`<${Text}>${f.mend}<//>`],
      [t("doctor.command"), f.command && html`<code><${Text}>${f.command}<//></code>`],
      [t("doctor.where"), f.file && html`<${Text}>${f.line ? t("doctor.at", f) : f.file}<//> ${section && html`<a href=${"#settings/" + encodeURIComponent(section)}>${t("doctor.openSettings")}</a>`}`],
      [t("doctor.page"), html`<code>${f.page}</code>`],
    ]} />
    ${f.fixable && html`<p><${Button} does=${() => mend(f.code)}>${t("doctor.fix")}<//></p>`}
  </article>`;
}
