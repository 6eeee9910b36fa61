// A module that may come into force is dropped here, asked what the log has, and what it would change is shown.

import { at, send } from "../../lib/api.js";
import { Badge, Danger, Notice, Section, Table, Text, When } from "../../lib/parts.js";
import { n, number, t } from "../../lib/text.js";
import { html, useId, useSignal } from "../../lib/ui.js";
import { Report } from "./cases.js";

const most = 8 << 20; // bytes of a module

export function Replay({ name }) {
  const state = useSignal({});
  const over = useSignal(false);
  const id = useId();
  const ask = async (file) => {
    if (!file || state.value.busy) return;
    if (file.size > most) {
      state.value = { error: t("policies.tooLarge") };
      return;
    }
    state.value = { busy: file.name };
    try {
      state.value = { file, report: await send("POST", at`/policies/${name}/replays`, new Blob([file], { type: "application/wasm" })) };
    } catch (error) {
      state.value = { error: error.message };
    }
  };
  const put = async () => {
    const { file } = state.value;
    await send("PUT", at`/policies/${name}/module`, new Blob([file], { type: "application/wasm" }));
    state.value = { now: file.name };
  };
  const drop = (e) => {
    e.preventDefault();
    over.value = false;
    ask(e.dataTransfer.files[0]);
  };
  const s = state.value;
  return html`<div class=${"drop" + (over.value ? " over" : "")} onDragOver=${(e) => { e.preventDefault(); over.value = true; }} onDragLeave=${() => { over.value = false; }} onDrop=${drop}>
      <label for=${id}>${t("policies.drop")}</label>
      <input id=${id} type="file" accept=".wasm,application/wasm" disabled=${Boolean(s.busy)} onChange=${(e) => { ask(e.target.files[0]); e.target.value = ""; }} />
      <p class="small">${t("policies.dropHelp")}</p>
    </div>
    ${s.busy && html`<p role="status">${t("policies.replaying", { file: "" })} <${Text}>${s.busy}<//></p>`}
    ${s.error && html`<${Notice} kind="bad"><${Text}>${s.error}<//><//>`}
    ${s.now && html`<${Notice} kind="good">${t("policies.nowInForce")} <${Text}>${s.now}<//><//>`}
    ${s.report && html`<p><${Text}>${s.file.name}<//> <${Danger} word=${t("policies.put")} question=${n("policies.putQuestion", s.report.changed, { name, compared: number(s.report.compared) })} does=${put}>${t("policies.put")}<//></p><${Difference} of=${s.report} /><${Each} of=${s.report.differences} />
      <${Section} title=${t("policies.cases")}>${s.report.cases ? html`<${Report} of=${s.report.cases} />` : html`<${Notice}>${t("policies.noCases")} <${Text}>${s.report.no_cases}<//><//>`}<//>`}`;
}

// Difference is a report of what would change, as flynn policy replay prints it.
export function Difference({ of: r }) {
  return html`<${Notice} kind=${r.looser ? "bad" : r.changed ? "warn" : "good"}>${n("policies.changed", r.compared, { changed: number(r.changed), looser: number(r.looser) })}
      ${r.reasons > 0 && " " + n("policies.reasons", r.reasons)}<//>
    ${r.cut && html`<${Notice} kind="warn"><${Text}>${r.cut}<//><//>`}
    ${(r.skipped ?? []).map((s) => html`<p class="small" key=${s.why}>${n("policies.skipped", s.count)} <${Text}>${s.why}<//></p>`)}
    ${r.groups?.length > 0 && html`<${Table} caption=${t("policies.groups")} rows=${r.groups.map((g, i) => ({ ...g, i }))} keyOf=${(g) => g.i} columns=${[
      { title: t("policies.number"), number: true, cell: (g) => number(g.count) },
      { title: t("policies.was"), cell: (g) => html`<${Answer} answer=${g.was} why=${g.was_why} />` },
      { title: t("policies.is"), cell: (g) => html`<${Answer} answer=${g.is} why=${g.is_why} />` },
      { title: t("policies.effect"), cell: (g) => html`<${Badge} kind=${g.effect === "looser" ? "bad" : ""}>${g.change === "answer" ? g.effect : g.change}<//> <${Text}>${g.detail ?? ""}<//>` },
    ]} />`}
    ${r.more_groups > 0 && html`<p class="small">${n("policies.moreGroups", r.more_groups)}</p>`}`;
}

const Answer = ({ answer, why }) => html`<${Badge}><${Text}>${answer}<//><//> ${why && html`<div class="small"><${Text}>${why}<//></div>`}`;

// Each lists the first differences one by one.
function Each({ of: list }) {
  if (!list.length) return null;
  return html`<${Section} title=${n("policies.first", list.length)}><${Table} caption=${t("policies.each")} rows=${list} keyOf=${(d) => d.id + d.change} columns=${[
    { title: t("policies.when"), cell: (d) => html`<a href=${"#policies/decision/" + d.id}><${When} at=${d.at} /></a>` },
    { title: t("policies.person"), cell: (d) => html`<${Text}>${d.sender}<//>` },
    { title: t("policies.tool"), cell: (d) => html`<${Text}>${d.tool ?? ""}<//>` },
    { title: t("policies.was"), cell: (d) => html`<${Answer} answer=${d.was} why=${d.was_why} />` },
    { title: t("policies.is"), cell: (d) => html`<${Answer} answer=${d.is} why=${d.is_why} />` },
  ]} /><//>`;
}
