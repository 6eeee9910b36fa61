// Usage: tokens and money over time, by agent, person, model or task, as charts. It is a part of the room models.

import { Chart, spans, tokens } from "../lib/chart.js";
import { useLive } from "../lib/live.js";
import { Empty, Field, Loaded, Notice, Section } from "../lib/parts.js";
import { money, number, t, zone } from "../lib/text.js";
import { html, useMemo, useSignal } from "../lib/ui.js";

const days = { hour: 2, day: 30, week: 182, month: 365 };
const keys = ["agent", "sender", "model", "task", "session", "all"];

export function Usage() {
  const by = useSignal("agent");
  const step = useSignal("day");
  // The address stays the same while the choice does, so that live data is loaded from one place.
  const since = useMemo(() => new Date(Date.now() - days[step.value] * 86400000).toISOString(), [step.value]);
  const series = useLive(`/usage/series?by=${by.value}&step=${step.value}&top=7&zone=${encodeURIComponent(zone())}&since=${since}`, "usage");
  const choose = (name, of, options) => html`<${Field} label=${t("usage." + name)} value=${of.value} change=${(x) => { of.value = x; }}
    options=${options.map((value) => ({ value, title: t("usage." + value) }))} />`;
  return html`<div class="filters">${choose("by", by, keys)}${choose("step", step, Object.keys(days))}</div>
    <p class="small">${t("usage.zone", { zone: zone() })}</p>
    <${Loaded} of=${series}>${(s) => (s.series.length ? html`<${Charts} of=${s} />` : html`<${Empty}>${t("usage.none")}<//>`)}<//>`;
}

function Charts({ of: s }) {
  const labels = spans(s.starts, s.step, s.zone);
  const name = (line) => (line.rest ? t("usage.rest") : line.key || t("usage.nobody"));
  const lines = (value) => s.series.map((line) => ({ key: line.key + line.rest, name: name(line), values: line.points.map(value) }));
  const costs = lines((p) => p.cost_usd).map((line, i) => ({ ...line, partial: s.series[i].points.map((p) => p.cost_usd !== null && p.unpriced > 0) }));
  const unpriced = s.series.reduce((sum, line) => sum + (line.sum.unpriced ?? 0), 0);
  const failed = s.series.reduce((sum, line) => sum + line.sum.failed, 0);
  return html`<${Section} title=${t("usage.money")}>
      ${unpriced > 0 && html`<${Notice} kind="warn">${t("usage.unpriced", { count: number(unpriced) })}<//>`}
      <${Chart} title=${t("usage.money")} of=${t("usage." + s.step)} labels=${labels} lines=${costs} form=${money} />
    <//>
    <${Section} title=${t("usage.tokens")}><${Chart} title=${t("usage.tokens")} of=${t("usage." + s.step)} labels=${labels} form=${tokens}
      lines=${lines((p) => p.input + p.output + p.cache_read + p.cache_write)} /><//>
    <${Section} title=${t("usage.calls")}><p class="small">${t("usage.failed", { count: number(failed) })}</p>
      <${Chart} title=${t("usage.calls")} of=${t("usage." + s.step)} labels=${labels} lines=${lines((p) => p.calls)} form=${number} /><//>`;
}
