// Schedules: what runs when, its history, and how to make, change, pause and run it.

import { at, get, send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { Badge, Button, Danger, Dialog, Facts, Field, Loaded, Notice, Page, Section, Table, Text, When } from "../lib/parts.js";
import { number, t, zone } from "../lib/text.js";
import { html, useEffect, useSignal } from "../lib/ui.js";
import { Form } from "./schedules/form.js";

export function Room({ rest, go }) {
  const schedules = useLive("/schedules", "schedules", "configuration");
  const making = useSignal(false);
  const add = html`<${Button} kind="main" does=${() => { making.value = true; }}>${t("schedules.add")}<//>`;
  return html`<${Page} title=${t("schedules.title")} lead=${t("schedules.lead", { zone: zone() })} actions=${add}>
    <${Loaded} of=${schedules}>${(list) => {
      const one = list.find((s) => s.name === rest[0]);
      return rest[0] ? html`<p><a href="#schedules">${t("schedules.back")}</a></p>${one ? html`<${Schedule} key=${one.name} of=${one} again=${schedules.again} go=${go} />` : html`<${Notice}>${t("schedules.gone")}<//>`}` : html`<${List} of=${list} />`;
    }}<//>
    ${making.value && html`<${Form} close=${() => { making.value = false; }} done=${async (s) => { await schedules.again(); go("schedules", s.name); }} />`}
  <//>`;
}

function State({ of: s }) {
  if (s.paused) return html`<${Badge} kind="warn">${t("schedules.paused")}<//>`;
  return s.running ? html`<${Badge} kind="good">${t("schedules.running")}<//>` : html`<${Badge}>${t("schedules.waiting")}<//>`;
}

const List = ({ of: list }) => html`<${Table} caption=${t("schedules.title")} rows=${list} keyOf=${(s) => s.name} empty=${t("schedules.none")} columns=${[
  { title: t("schedules.name"), cell: (s) => html`<a href=${"#schedules/" + encodeURIComponent(s.name)}><${Text}>${s.name}<//></a>` },
  { title: t("schedules.when"), cell: (s) => html`<${Text}>${s.timing}<//>` },
  { title: t("schedules.state"), cell: (s) => html`<${State} of=${s} />` },
  { title: t("schedules.next"), cell: (s) => html`<${When} at=${s.next} />` },
  { title: t("schedules.last"), cell: (s) => s.last && html`<${Outcome} of=${s.last} /> <${When} at=${s.last.at} />` },
]} />`;

const Outcome = ({ of: r }) => html`<${Badge} kind=${{ failed: "bad", missed: "warn", skipped: "warn", done: "good" }[r.state] ?? ""}>${t("schedules." + r.state)}<//>`;

function Schedule({ of: s, again, go }) {
  const changing = useSignal(false);
  const pausing = useSignal(false);
  const path = at`/schedules/${s.name}`;
  const run = async () => { await send("POST", path + "/runs"); await again(); };
  const resume = async () => { await send("PATCH", path, { paused: false }); await again(); };
  return html`<${Section} title=${html`<${Text}>${s.name}<//>`} actions=${html`<div class="actions">
      <${Button} does=${run}>${t("schedules.run")}<//>
      ${s.paused ? html`<${Button} does=${resume}>${t("schedules.resume")}<//>` : html`<${Button} does=${() => { pausing.value = true; }}>${t("schedules.pause")}<//>`}
      <${Button} does=${() => { changing.value = true; }}>${t("schedules.change")}<//>
      <${Danger} word=${t("schedules.remove")} question=${t("schedules.removeQuestion", { name: s.name })} does=${async () => { await send("DELETE", path); go("schedules"); await again(); }}>${t("schedules.remove")}<//></div>`}>
      ${s.paused && html`<${Notice} kind="warn">${t("schedules.pausedBy")} <${Text}>${s.paused}<//><//>`}
      <${Facts} of=${[
        [t("schedules.state"), html`<${State} of=${s} /> ${s.waiting > 0 && t("schedules.dueNow", { count: number(s.waiting) })} ${s.failures > 0 && t("schedules.failures", { count: number(s.failures) })}`],
        [t("schedules.when"), html`<${Text}>${s.timing}<//>`],
        [t("schedules.agent"), html`<a href=${"#agents/of/" + encodeURIComponent(s.agent)}><${Text}>${s.agent}<//></a>`],
        [t("schedules.as"), html`<${Text}>${s.as}<//>`], [t("schedules.deliver"), html`<${Text}>${s.deliver || t("schedules.own")}<//>`],
        [t("schedules.catch_up"), t("schedules." + s.catch_up)], [t("schedules.text"), html`<${Text}>${s.text}<//>`],
        [t("schedules.upcoming"), !s.paused && html`<${Upcoming} timing=${s.cron || s.every} zone=${s.timezone ?? ""} />`],
      ]} /><//>
    <${History} key=${s.last?.event + s.last?.state} path=${path} />
    ${pausing.value && html`<${Pause} path=${path} again=${again} close=${() => { pausing.value = false; }} />`}
    ${changing.value && html`<${Form} of=${s} close=${() => { changing.value = false; }} done=${again} />`}`;
}

function Pause({ path, again, close }) {
  const reason = useSignal("");
  const pause = async () => { await send("PATCH", path, { paused: true, reason: reason.value }); await again(); close(); };
  return html`<${Dialog} title=${t("schedules.pause")} close=${close} actions=${html`<${Button} kind="main" does=${pause}>${t("schedules.pause")}<//>`}>
    <p>${t("schedules.pauseLead")}</p><${Field} label=${t("schedules.reason")} value=${reason.value} change=${(x) => { reason.value = x; }} maxlength="500" /><//>`;
}

// Upcoming are the next times of a timing in the reader's zone.
export function Upcoming({ timing, zone: of }) {
  const found = useSignal({});
  useEffect(() => {
    let current = true;
    if (!timing) return () => {};
    const timer = setTimeout(() => get(`/schedules/preview?timing=${encodeURIComponent(timing)}&zone=${encodeURIComponent(of)}`)
      .then((next) => { if (current) found.value = { next }; }, (error) => { if (current) found.value = { error }; }), 150);
    return () => { current = false; clearTimeout(timer); };
  }, [timing, of]);
  const { next, error } = found.value;
  if (error) return html`<span class="trouble" role="status">${error.message}</span>`;
  return next ? html`<div role="status"><ul class="plain">${next.next.map((at) => html`<li key=${at}><time datetime=${at}>${whole.format(new Date(at))}</time></li>`)}</ul></div>` : "";
}

const whole = new Intl.DateTimeFormat(undefined, { weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" });

function History({ path }) {
  const pages = useSignal({ items: [], next: "", loading: true });
  const load = async (cursor) => {
    const page = await get(`${path}/runs?limit=20${cursor ? "&cursor=" + encodeURIComponent(cursor) : ""}`);
    pages.value = { items: cursor ? [...pages.value.items, ...page.items] : page.items, next: page.next ?? "" };
  };
  useEffect(() => { load("").catch(() => {}); }, [path]); // the room says that the host is away
  return html`<${Section} title=${t("schedules.history")}><${Table} caption=${t("schedules.history")} rows=${pages.value.items} keyOf=${(r) => r.event} empty=${t(pages.value.loading ? "shell.loading" : "schedules.noRuns")} columns=${[
      { title: t("schedules.dueAt"), cell: (r) => html`<${When} at=${r.due} />` },
      { title: t("schedules.state"), cell: (r) => html`<${Outcome} of=${r} />${r.count > 1 ? ` × ${number(r.count)}` : ""}` },
      { title: t("schedules.ended"), cell: (r) => html`<${When} at=${r.at} />` },
      { title: t("schedules.note"), cell: (r) => html`<${Text}>${r.note}<//>` },
    ]} />${pages.value.next && html`<p><${Button} does=${() => load(pages.value.next)}>${t("schedules.older")}<//></p>`}<//>`;
}
