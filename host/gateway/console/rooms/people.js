// People: who wants to come in, who is in and as what, and all about one of them at #people/SENDER.

import { send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { Badge, Button, Empty, Field, Loaded, Notice, Page, Section, Table, Text, When } from "../lib/parts.js";
import { t } from "../lib/text.js";
import { html, useEffect, useSignal } from "../lib/ui.js";
import { Person } from "./people/person.js";

const step = 100;
const most = 500; // that the host tells at once
const typing = 250; // milliseconds

export function Room({ rest, go }) {
  return rest[0] ? html`<${Person} key=${rest[0]} sender=${rest[0]} go=${go} />` : html`<${Everybody} />`;
}

function Everybody() {
  const typed = useSignal("");
  const words = useSignal("");
  const limit = useSignal(step);
  useEffect(() => {
    const timer = setTimeout(() => { words.value = typed.value.trim(); }, typing);
    return () => clearTimeout(timer);
  }, [typed.value]);
  const knocks = useLive("/people", "people");
  const known = useLive(`/people/known?limit=${limit.value}&words=${encodeURIComponent(words.value)}`, "people", "configuration");
  return html`<${Page} title=${t("people.title")} lead=${t("people.lead")}>
    <${Section} title=${t("people.knocks")}><${Loaded} of=${knocks}>${(list) => html`<${Knocks} of=${list.filter((p) => p.state === "open")} changed=${knocks.again} />`}<//><//>
    <${Section} title=${t("people.all")}>
      <${Field} label=${t("people.search")} kind="search" value=${typed.value} change=${(x) => { typed.value = x; }} maxlength="200" />
      <${Loaded} of=${known}>${(page) => html`<${Known} of=${page.items} />
        ${page.next && (limit.value < most ? html`<${Button} kind="quiet" does=${() => { limit.value += step; }}>${t("people.more")}<//>` : html`<p class="small">${t("people.tooMany")}</p>`)}`}<//>
    <//>
  <//>`;
}

function Knocks({ of: list, changed }) {
  if (!list.length) return html`<${Empty}>${t("people.nobodyKnocks")}<//>`;
  const decide = (p, approve) => async () => {
    await send("POST", "/people/decision", { code: p.code, approve });
    changed();
  };
  return html`<${Notice}>${t("people.check")}<//><ul class="lines">${list.map((p) => html`<li key=${p.code}>
    <b><${Text}>${p.sender}<//></b> ${p.name && html`<${Text}>${p.name}<//>`} <span class="sub">${t("people.code", { code: p.code })} <${When} at=${p.expires} /></span>
    <span class="buttons"><${Button} does=${decide(p, false)}>${t("people.turnDown")}<//><${Button} kind="primary" does=${decide(p, true)}>${t("people.letIn")}<//></span></li>`)}</ul>`;
}

// Role is what somebody may now.
export const Role = ({ of: p }) => (p.configured === "blocked" ? html`<${Badge} kind="bad">${t("people.blocked")}<//>`
  : p.effective ? html`<${Badge} kind=${p.effective === "owner" ? "warn" : "good"}>${p.effective}<//>` : html`<${Badge}>${t("people.out")}<//>`);

function Known({ of: list }) {
  return html`<${Table} caption=${t("people.all")} empty=${t("people.none")} rows=${list} keyOf=${(p) => p.sender} columns=${[
    { title: t("people.person"), cell: (p) => html`<a href=${"#people/" + encodeURIComponent(p.sender)}><${Text}>${p.sender}<//></a> ${p.name && html`<span class="sub"><${Text}>${p.name}<//></span>`}` },
    { title: t("people.role"), cell: (p) => html`<${Role} of=${p} />` },
    { title: t("people.state"), cell: (p) => t("people." + p.state) },
    { title: t("people.since"), cell: (p) => html`<${When} at=${p.decided || p.asked} />` },
    { title: t("people.identity"), cell: (p) => p.identity },
  ]} />`;
}
