// One person: what the platform proves, what he may, used and holds, and what can be done about it.

import { at, get, send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { may } from "../../lib/me.js";
import { Button, Danger, Empty, Facts, Loaded, Notice, Page, Section, Table, Text, When } from "../../lib/parts.js";
import { bytes, money, number, t } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { Role } from "../people.js";

const proofs = { proved: "people.proved", accepted: "people.accepted", claimed: "people.claimed" };

export function Person({ sender }) {
  const person = useLive(at`/people/${sender}`, "people", "sign-ins", "usage", "configuration");
  const erased = useSignal("");
  return html`<${Page} title=${t("people.person")}>
    <p><a href="#people">${t("people.back")}</a></p>
    ${erased.value ? html`<${Notice} kind="good">${erased.value}<//>` : html`<${Loaded} of=${person}>${(p) => html`
      <${About} of=${p} /><${Rights} of=${p} changed=${person.again} /><${SignIns} of=${p.sign_ins} changed=${person.again} /><${Data} of=${p} erased=${erased} />`}<//>`}
  <//>`;
}

// About is what the host has of somebody.
export function About({ of: p }) {
  return html`<h2><${Text}>${p.sender}<//> <${Role} of=${p} /></h2><${Facts} of=${[
    [t("people.name"), p.name && html`<${Text}>${p.name}<//>`],
    [t("people.identity"), t(proofs[p.identity] ?? "people.noProof")],
    [t("people.state"), t("people." + p.state)],
    [t("people.since"), (p.decided || p.asked) && html`<${When} at=${p.decided || p.asked} />`],
    [t("people.byName"), p.by && html`<${Text}>${p.by}<//>`],
    [t("people.linked"), p.linked.length > 0 && html`<${Text}>${p.linked.join(", ")}<//>`],
    [t("people.last"), p.last && html`<${When} at=${p.last} />`],
    [t("people.used"), t("people.usedText", { cost: money(p.used.cost_usd), calls: number(p.used.calls), month: money(p.month.cost_usd) })],
    [t("people.holds"), t("people.holdsText", { sessions: number(p.sessions), notes: number(p.notes), files: number(p.files), bytes: bytes(p.held.bytes + p.held.media) })],
  ]} />`;
}

function Rights({ of: p, changed }) {
  const does = (method, path, body) => async () => {
    await send(method, path, body);
    changed();
  };
  const path = at`/people/${p.sender}`;
  const other = p.role === "member" ? "guest" : "member";
  return html`<${Section} title=${t("people.pairing")}>
    ${p.configured && html`<${Notice}>${t("people.configured", { what: p.configured })}<//>`}
    <div class="buttons">
      ${p.state === "paired" && html`<${Button} does=${does("PATCH", path, { role: other })}>${other === "member" ? t("people.makeMember") : t("people.makeGuest")}<//>
        <${Danger} word=${t("people.revoke")} question=${t("people.revokeQuestion", { name: p.sender })} does=${does("DELETE", path)}>${t("people.revoke")}<//>`}
      ${p.blocked ? html`<${Button} does=${does("DELETE", path + "/block")}>${t("people.unblock")}<//>`
        : html`<${Danger} word=${t("people.block")} question=${t("people.blockQuestion", { name: p.sender })} does=${does("PUT", path + "/block")}>${t("people.block")}<//>`}
    </div>
  <//>`;
}

// SignIns are the browsers in which somebody is signed in.
export function SignIns({ of: list, changed }) {
  const end = (s) => async () => {
    await send("DELETE", at`/sign-ins/${s.id}`);
    changed();
  };
  return html`<${Section} title=${t("people.signIns")}>${list.length === 0 ? html`<${Empty}>${t("people.noSignIns")}<//>`
    : html`<${Table} caption=${t("people.signIns")} rows=${list} keyOf=${(s) => s.id} columns=${[
      { title: t("people.began"), cell: (s) => html`<${When} at=${s.began} />` },
      { title: t("people.lastUsed"), cell: (s) => html`<${When} at=${s.used} />` },
      { title: t("people.end"), cell: (s) => html`<${Button} kind="quiet" does=${end(s)}>${t("people.end")}<//>` },
    ]} />`}<//>`;
}

// Data gives all of it, and to owners the way to delete it.
export function Data({ of: p, erased }) {
  const path = at`/people/${p.sender}`;
  const download = async () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await get(path + "/export"));
    link.download = "flynn-export.zip";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };
  const erase = async () => {
    const gone = await send("DELETE", path + "/data");
    erased.value = t("people.erased", { sessions: number(gone.sessions), notes: number(gone.notes), files: number(gone.files) });
  };
  return html`<${Section} title=${t("people.data")}><p class="small">${t("people.dataLead")}</p><div class="buttons">
    <${Button} does=${download}>${t("people.export")}<//>
    ${may("owner") && html`<${Danger} word=${t("people.erase")} question=${t("people.eraseQuestion", { name: p.sender })} does=${erase}>${t("people.erase")}<//>`}</div><//>`;
}
