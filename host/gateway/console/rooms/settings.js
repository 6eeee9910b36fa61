// Settings: every key of flynn.toml with its meaning, its default and what the file says. Edits are collected as drafts, checked while they
// are typed, shown as a difference, and then in force or refused as a whole.

import { get, send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { Badge, Button, Loaded, Notice, Page, Text } from "../lib/parts.js";
import { n, t } from "../lib/text.js";
import { html, useEffect, useSignal } from "../lib/ui.js";
import { changesOf, draftsOf, invalid } from "./settings/drafts.js";
import { WholeFile } from "./settings/file.js";
import { History } from "./settings/history.js";
import { Keys } from "./settings/keys.js";
import { Restart, Restarting } from "./settings/restart.js";
import { Review, told } from "./settings/review.js";
import { Secrets } from "./settings/secrets.js";
import { Sections } from "./settings/sections.js";

const settle = 400; // milliseconds without a key before what is typed is checked

export function Room({ rest, go }) {
  const file = useLive("/configuration", "configuration");
  const keys = useLive("/configuration/keys", "configuration");
  const drafts = useSignal({});      // by the key's name: {key, draft, was}
  const problems = useSignal([]);    // of the last check
  const review = useSignal(null);    // the edit that is about to be made
  const saved = useSignal(null);     // the last edit that was made
  const restarting = useSignal(null);
  const [section = "", table] = rest; // all of it, or one of its tables
  const open = (...to) => go("settings", ...to);
  const again = () => { file.again(); keys.again(); };
  const version = file.value?.version;

  useEffect(() => {
    const changes = changesOf(drafts.value);
    if (!changes.length || !version) {
      problems.value = [];
      return undefined;
    }
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        problems.value = (await send("POST", "/configuration/check", { version, changes }, { signal: stop.signal })).problems;
      } catch (error) {
        if (!stop.signal.aborted && error.status !== 409) problems.value = [{ problem: error.message }];
      }
    }, settle);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [drafts.value, version]);

  const ask = (edit) => { review.value = { version, ...edit }; };
  const done = (edited) => {
    saved.value = edited.restarting ? null : edited;
    restarting.value = edited.restarting || restarting.value;
    review.value = null;
    drafts.value = {};
    again();
  };
  const undo = async () => {
    const now = await get("/configuration");
    await send("POST", "/configuration/undo", { version: now.version });
    saved.value = null;
    again();
  };
  const parts = { open, section, table, ask, drafts, problems };
  return html`<${Page} title=${t("settings.title")} lead=${t("settings.lead")}>
    <${Loaded} of=${file}>${(c) => html`<${State} of=${c} restart=${html`<${Restart} began=${(it) => { restarting.value = it; }} />`} />`}<//>
    ${restarting.value && html`<${Restarting} key=${restarting.value.since} of=${restarting.value} back=${again} />`}
    ${keys.value?.some((k) => k.runs !== undefined) && html`<${Notice} kind="warn">${t("settings.keysWait")}<//>`}
    ${saved.value && html`<${Notice} kind="good">${saved.value.hosts?.length > 1 ? t("settings.savedOnAll", { hosts: saved.value.hosts.join(", ") }) : t("settings.saved", { generation: saved.value.generation })} <${Button} kind="quiet" does=${undo}>${t("settings.undo")}<//><//>`}
    <div class="settings">
      <${Loaded} of=${keys}>${(list) => html`<${Sections} keys=${list} now=${section} drafts=${draftsOf(drafts.value)} open=${open} />
        <div class="settings-main">${section === "file" ? html`<${Loaded} of=${file}>${(c) => html`<${WholeFile} of=${c} ask=${ask} />`}<//>`
          : section === "history" ? html`<${History} version=${version} ask=${ask} />`
          : section === "secrets" ? html`<${Secrets} />`
          : html`<${Keys} keys=${list} readOnly=${Boolean(file.value?.read_only)} ...${parts} />`}</div>`}<//>
    </div>
    <${Bar} drafts=${drafts} problems=${problems.value} ask=${ask} />
    ${review.value && html`<${Review} edit=${review.value} close=${() => { review.value = null; }} done=${done} stale=${again} />`}
  <//>`;
}

// State says whether the file is in force.
function State({ of: c, restart }) {
  return html`<p class="small"><${Badge} kind=${c.state === "in_force" ? "good" : c.state === "refused" ? "bad" : "warn"}>${t("settings." + c.state)}<//> ${t("settings.generation", c)} <${Text}>${c.path}<//></p>
    <div class="buttons">${restart}</div>
    ${c.read_only && html`<${Notice} kind="warn">${t("settings.readOnly")} <${Text}>${c.read_only}<//><//>`}
    ${c.refused && html`<${Notice} kind="bad">${t("settings.whyRefused")} <${Text}>${c.refused}<//><//>`}
    ${c.warnings.map((p, i) => html`<${Notice} key=${"w" + i} kind="warn"><${Text}>${told(p)}<//><//>`)}
    ${!c.refused && c.problems.map((p, i) => html`<${Notice} key=${i} kind="bad"><${Text}>${told(p)}<//><//>`)}`;
}

// Bar stays in reach while there are drafts.
function Bar({ drafts, problems, ask }) {
  const list = draftsOf(drafts.value);
  if (!list.length) return null;
  const wrong = invalid(drafts.value);
  return html`<div class="settings-bar" role="region" aria-label=${t("settings.drafts")}>
    <span>${n("settings.draft", list.length)}${problems.length || wrong ? " · " + t("settings.notYet") : ""}</span>
    ${problems.filter((p) => !list.some((d) => d.name === p.key)).slice(0, 3).map((p, i) => html`<span key=${i} class="trouble" role="alert"><${Text}>${(p.key ? p.key + ": " : "") + p.problem + (p.next ? " (" + p.next + ")" : "")}<//></span>`)}
    <span class="buttons"><${Button} does=${() => { drafts.value = {}; }}>${t("settings.discard")}<//>
    <button type="button" class="button main" disabled=${wrong} onClick=${() => ask({ changes: changesOf(drafts.value) })}>${t("settings.review")}</button></span>
  </div>`;
}
