// What was decided: a list that grows as it happens, and one decision with all that it was made of.

import { useLive } from "../../lib/live.js";
import { Pages, query, usePages } from "../../lib/pages.js";
import { Badge, Facts, Field, Loaded, Page, Section, Source, Table, Text, When } from "../../lib/parts.js";
import { number, t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";

// kindOf is the colour of an answer.
const kindOf = (d) => (d.error ? "bad" : /^(deny|drop)/.test(d.answer) ? "warn" : /^ask/.test(d.answer) ? "info" : "");

const most = 300; // characters of a text in the list; the decision alone has all of it

const clipped = (text, n) => (text.length > n ? text.slice(0, n) + " …" : text);

const About = ({ of: d, n = Infinity }) => html`${d.reason && html`<div><${Text}>${clipped(d.reason, n)}<//></div>`}${d.error && html`<div class="trouble"><${Text}>${clipped(d.error, n)}<//></div>`}`;

// Decisions is the list. policy fixes the policy whose decisions it shows.
export function Decisions({ policy, policies = [] }) {
  const filter = useSignal({ policy: policy ?? "", agent: "", tool: "", person: "", outcome: "" });
  const set = (name) => (value) => { filter.value = { ...filter.value, [name]: value.trim() }; };
  const list = usePages(query("/decisions", filter.value), (d) => d.id, ["decisions", "policies"]);
  return html`<div class="filters" role="search" aria-label=${t("policies.filter")}>
      ${!policy && html`<${Field} label=${t("policies.by")} value=${filter.value.policy} change=${set("policy")} options=${[{ value: "", title: t("policies.any") }, ...policies, "table", "host"]} />`}
      <${Field} label=${t("policies.agent")} value=${filter.value.agent} change=${set("agent")} maxlength="256" />
      <${Field} label=${t("policies.tool")} value=${filter.value.tool} change=${set("tool")} maxlength="256" />
      <${Field} label=${t("policies.person")} value=${filter.value.person} change=${set("person")} maxlength="1024" />
      <${Field} label=${t("policies.outcome")} value=${filter.value.outcome} change=${set("outcome")} options=${[{ value: "", title: t("policies.any") }, "none", "deny", "ask", "run", "drop", "failed"]} />
    </div>
    <${Pages} of=${list} caption=${t("policies.decisions")} keyOf=${(d) => d.id} empty=${t("policies.noDecisions")} columns=${[
      { title: t("policies.when"), cell: (d) => html`<a href=${"#policies/decision/" + d.id}><${When} at=${d.at} /></a>` },
      { title: t("policies.by"), cell: (d) => html`<${Text}>${d.policy}<//> <span class="small">${d.kind}</span>` },
      { title: t("policies.about"), cell: (d) => html`<${Text}>${[d.agent, d.tool].filter(Boolean).join(" · ")}<//> <div class="small"><${Text}>${d.person}<//></div>` },
      { title: t("policies.answer"), cell: (d) => html`<${Badge} kind=${kindOf(d)}><${Text}>${d.answer.trim() || t("policies.noAnswer")}<//><//> <${About} of=${d} n=${most} />` },
    ]} />`;
}

// Decision is one of them.
export function Decision({ id }) {
  const one = useLive("/decisions/" + encodeURIComponent(id), "decisions");
  return html`<${Page} title=${t("policies.decision", { id })}>
    <${Loaded} of=${one}>${(d) => html`
      <${Facts} of=${[
        [t("policies.when"), html`<${When} at=${d.at} />`],
        [t("policies.by"), html`<${Text}>${d.policy}<//> (${d.kind})`],
        [t("policies.module"), d.file && html`<code>${d.file}</code>`],
        [t("policies.answer"), html`<${Badge} kind=${kindOf(d)}><${Text}>${d.answer.trim() || t("policies.noAnswer")}<//><//>`],
        [t("policies.reason"), (d.reason || d.error) && html`<${About} of=${d} />`],
        [t("policies.fuel"), d.fuel && number(d.fuel)],
        [t("policies.turn"), d.turn && html`<a href=${"#timeline/turn/" + encodeURIComponent(d.turn)}>${d.turn}</a>`],
        [t("policies.agent"), d.agent && html`<${Text}>${d.agent}<//>`],
        [t("policies.person"), d.person && html`<${Text}>${d.person}<//>`],
      ]} />
      ${d.args && html`<${Section} title=${t("policies.args")}><${Source} label=${t("policies.args")}>${typeof d.args === "string" ? d.args : JSON.stringify(d.args, null, 2)}<//><//>`}
      ${d.text && html`<${Section} title=${t("policies.text")}><${Source} label=${t("policies.text")}>${d.text}<//><//>`}
      <${Section} title=${t("policies.facts")}><${Table} caption=${t("policies.facts")} rows=${d.facts} keyOf=${(f) => f.name} empty=${t("policies.noFacts")} columns=${[
        { title: t("policies.fact"), cell: (f) => f.name }, { title: t("policies.value"), cell: (f) => html`<code><${Text}>${f.value}<//></code>` },
      ]} /><//>
      ${d.calls.length > 0 && html`<${Section} title=${t("policies.calls")}><${Table} caption=${t("policies.calls")} rows=${d.calls.map((c, i) => ({ ...c, i }))} keyOf=${(c) => c.i} columns=${[
        { title: t("policies.call"), cell: (c) => c.name }, { title: t("policies.asked"), cell: (c) => html`<${Text}>${c.args}<//>` },
        { title: t("policies.got"), cell: (c) => html`<${Text}>${c.data || String(c.return)}<//>` },
      ]} /><//>`}`}<//>
  <//>`;
}
