// What an edit would do, before it is made: the difference, what is wrong, and which parts it restarts.

import { send } from "../../lib/api.js";
import { Badge, Button, Dialog, Diff, Notice, Text } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { html, useEffect, useSignal } from "../../lib/ui.js";
import { running } from "./restart.js";

const patience = 125000; // milliseconds; longer than the host gives to a reload

export function Review({ edit, close, done, stale }) {
  const check = useSignal(null);
  const trouble = useSignal("");
  const fails = (error) => {
    trouble.value = error.message;
    if (error.status === 409) stale();
  };
  useEffect(() => {
    send("POST", "/configuration/check", edit, { wait: patience }).then((value) => { check.value = value; }, fails);
  }, []);
  const save = (restart) => async () => {
    try {
      const since = restart && await running();
      const edited = await send("PUT", "/configuration", { ...edit, restart }, { wait: patience });
      done({ ...edited, restarting: restart && { ...edited.restarting, since } });
    } catch (error) {
      fails(error);
      for (const e of error.errors ?? []) trouble.value += "\n" + [e.location, e.message].filter(Boolean).join(": ");
    }
  };
  const c = check.value;
  const able = c && c.difference && c.ok && !trouble.value;
  return html`<${Dialog} title=${t("settings.reviewTitle")} close=${close} wide=${true}
    actions=${html`${c?.restart !== "now" && html`<${Button} kind="main" does=${save(false)} aria-disabled=${able ? undefined : "true"}>${c && !c.ok ? t("settings.saveAnyway") : t("settings.save")}<//>`}
      ${c && c.restart !== "none" && html`<${Button} kind=${c.restart === "now" ? "main" : undefined} does=${save(true)} aria-disabled=${able ? undefined : "true"}>${t("settings.saveRestart")}<//>`}`}>
    ${trouble.value && html`<${Notice} kind="bad"><${Text}>${trouble.value}<//><//>`}
    ${!c && !trouble.value && html`<p role="status">${t("settings.checking")}</p>`}
    ${c && c.problems.map((p, i) => html`<${Notice} key=${i} kind="bad"><${Text}>${told(p)}<//><//>`)}
    ${c && c.warnings.map((p, i) => html`<${Notice} key=${"w" + i} kind="warn"><${Text}>${told(p)}<//><//>`)}
    ${c?.restart === "now" && html`<${Notice} kind="warn">${t("settings.restartNow")}<//>`}
    ${c && (c.difference ? html`<${Diff}>${c.difference.replaceAll("\r\n", "\n").trimEnd()}<//>` : html`<p>${t("settings.nothingChanges")}</p>`)}
    ${c?.effects.length > 0 && html`<h3>${t("settings.effects")}</h3><ul class="lines">${c.effects.map((e, i) => html`<li key=${i}><span class="name"><${Text}>${[e.part, e.name].filter(Boolean).join(" ")}<//></span>
      <${Badge} kind=${e.change === "needs_restart" ? "bad" : e.change === "restarts" || e.change === "stops" ? "warn" : ""}>${t("settings." + e.change)}<//></li>`)}</ul>`}
  <//>`;
}

// told is a problem of the file, for people.
export const told = (p) => (p.line ? t("settings.atLine", p) + " " : "") + (p.key ? p.key + ": " : "") + p.problem + (p.next ? " (" + p.next + ")" : "");
