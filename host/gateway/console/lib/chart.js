// A chart of stacked bars over time, with its numbers as a table behind it. Lines are told apart by patterns as well as by colours, the arrow
// keys walk from bar to bar, and what a bar has is said below the chart.

import { Table } from "./parts.js";
import { number, revealed, t } from "./text.js";
import { html, useId, useSignal } from "./ui.js";

const wide = 720;
const high = 200;
const colours = 8;

// The strokes that tell lines apart; the first has none.
const strokes = ["", "M0 8L8 0", "M0 0L8 8", "M4 0V8", "M0 4H8", "M0 4H8M4 0V8", "M0 8L8 0M0 0L8 8", "M2 2h1M6 6h1"];

// Chart draws lines: {key, name, values, partial}, of one value for each of labels; null is a value that nobody knows, and one of those that
// partial names is not the whole. form is how people read a value.
export function Chart({ title, labels, lines, form, of }) {
  const id = useId();
  const at = useSignal(-1);
  const sums = labels.map((_, i) => lines.reduce((sum, line) => sum + (line.values[i] ?? 0), 0));
  const unknown = (i) => lines.some((line) => line.values[i] === null || line.partial?.[i]);
  const most = Math.max(...sums, 0) || 1;
  const step = wide / Math.max(labels.length, 1);
  const move = (e) => {
    const to = { ArrowRight: at.value + 1, ArrowLeft: at.value - 1, Home: 0, End: labels.length - 1, Escape: -1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    at.value = Math.min(Math.max(to, e.key === "Escape" ? -1 : 0), labels.length - 1);
  };
  const point = (e) => {
    const box = e.currentTarget.getBoundingClientRect();
    at.value = Math.min(Math.max(Math.floor(((e.clientX - box.left) / box.width) * labels.length), 0), labels.length - 1);
  };
  return html`<figure class="chart">
    <figcaption class="hidden" id=${id}>${title}</figcaption>
    <div class="chart-most small" aria-hidden="true">${form(most)}</div>
    <svg viewBox=${`0 0 ${wide} ${high}`} preserveAspectRatio="none" role="img" tabindex="0" aria-labelledby=${id} aria-describedby=${id + "-at"} onKeyDown=${move} onPointerMove=${point}>
      <defs>${strokes.map((d, i) => d && html`<pattern id=${id + "-" + i} width="8" height="8" patternUnits="userSpaceOnUse"><path d=${d} class="chart-stroke" /></pattern>`)}</defs>
      <line x1="0" x2=${wide} y1=${high} y2=${high} class="chart-ground" /><line x1="0" x2=${wide} y1="0" y2="0" class="chart-ground" />
      ${labels.map((_, i) => html`<${Bar} key=${i} id=${id} x=${i * step} wide=${step} values=${lines.map((line) => line.values[i])} most=${most} chosen=${i === at.value} unknown=${unknown(i)} />`)}
    </svg>
    <div class="chart-labels small" aria-hidden="true">${[0, (labels.length - 1) >> 1, labels.length - 1].filter((x, i, all) => x >= 0 && all.indexOf(x) === i).map((i) => html`<span>${labels[i]}</span>`)}</div>
    <p class="chart-at small" id=${id + "-at"} role="status">${at.value < 0 ? t("chart.keys") : said(at.value, labels, lines, form, sums[at.value], unknown(at.value))}</p>
    <ul class="chart-legend">${lines.map((line, i) => html`<li key=${line.key}><${Swatch} id=${id} of=${i} /> ${revealed(line.name)} <b>${total(line, form)}</b></li>`)}</ul>
    <details><summary>${t("chart.table")}</summary><${Numbers} title=${title} labels=${labels} lines=${lines} form=${form} of=${of} /></details>
  </figure>`;
}

// Bar is one stack. What nobody knows is marked above it, because it has no height.
function Bar({ id, x, wide, values, most, chosen, unknown }) {
  let top = high;
  const gap = wide > 4 ? wide * 0.15 : 0;
  const parts = values.map((value, i) => {
    const tall = ((value ?? 0) / most) * high;
    top -= tall;
    const box = { x: x + gap / 2, y: top, width: wide - gap, height: tall };
    return tall > 0 && html`<rect ...${box} class=${"chart-" + (i % colours)} />${strokes[i % colours] && html`<rect ...${box} fill=${`url(#${id}-${i % colours})`} />`}`;
  });
  return html`<g>${parts}${unknown && html`<path class="chart-unknown" d=${`M${x + wide / 2} ${Math.max(top - 10, 2)}v6`} />`}
    ${chosen && html`<rect class="chart-chosen" x=${x} y="0" width=${wide} height=${high} />`}</g>`;
}

const Swatch = ({ id, of }) => html`<svg class="swatch" viewBox="0 0 16 16" aria-hidden="true"><rect width="16" height="16" class=${"chart-" + (of % colours)} />
  ${strokes[of % colours] && html`<rect width="16" height="16" fill=${`url(#${id}-${of % colours})`} />`}</svg>`;

const one = (line, i, form) => (line.values[i] === null ? t("chart.unknown") : least(line.partial?.[i], form(line.values[i])));
const least = (partial, sum) => (partial ? t("chart.least", { sum }) : sum);

// total is the sum of a line, as far as it is known.
function total({ values, partial }, form) {
  const sum = values.reduce((a, b) => a + (b ?? 0), 0);
  const whole = values.every((x) => x !== null) && !partial?.some(Boolean);
  return sum === 0 && !whole ? t("chart.unknown") : least(!whole, form(sum));
}

// said is what the bar i has, in words.
function said(i, labels, lines, form, sum, unknown) {
  const parts = lines.filter((line) => line.values[i] !== 0).map((line) => [revealed(line.name), " ", one(line, i, form), "; "]);
  return html`${labels[i]}: ${parts}${t("chart.sum", { sum: least(unknown, form(sum)) })}`;
}

const Numbers = ({ title, labels, lines, form, of }) => html`<div class="chart-table" tabindex="0" role="group" aria-label=${title}><${Table} caption=${title} keyOf=${(i) => i} rows=${labels.map((_, i) => i).reverse()}
  columns=${[{ title: of, cell: (i) => labels[i] }, ...lines.map((line) => ({ title: revealed(line.name), number: true, cell: (i) => one(line, i, form) }))]} empty="" /></div>`;

// spans are the labels of spans of time in their zone.
export function spans(starts, step, zone) {
  const shape = { hour: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }, month: { month: "short", year: "numeric" } }[step] ?? { day: "numeric", month: "short", year: "numeric" };
  const form = new Intl.DateTimeFormat(undefined, { ...shape, timeZone: zone });
  return starts.map((start) => form.format(new Date(start)));
}

export const tokens = (x) => t("chart.tokens", { count: number(x) });
