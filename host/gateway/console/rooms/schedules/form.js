// The form of a schedule. It shows the next times while it is filled in, and names the value that the host refuses.

import { at, send } from "../../lib/api.js";
import { Button, Dialog, Field } from "../../lib/parts.js";
import { t, zone } from "../../lib/text.js";
import { html, useSignal } from "../../lib/ui.js";
import { Upcoming } from "../schedules.js";

const keys = ["timezone", "text", "agent", "as", "deliver", "catch_up", "jitter", "quiet"];

const usual = { catch_up: "once", quiet: "HEARTBEAT_OK" }; // what holds without the keys

// Form makes a schedule, or changes the one that is given.
export function Form({ of, close, done }) {
  const form = useSignal({
    name: of?.name ?? "", how: of?.every ? "every" : "cron", cron: of?.cron ?? "", every: of?.every ?? "", timezone: of ? of.timezone ?? "" : zone(),
    text: of?.text ?? "", agent: of?.agent ?? "", as: of?.as ?? "", deliver: of?.deliver ?? "",
    catch_up: of?.catch_up ?? usual.catch_up, jitter: of?.jitter ?? "", quiet: of ? of.quiet ?? "" : usual.quiet,
  });
  const faults = useSignal([]);
  const v = form.value;
  const set = (key) => (x) => { form.value = { ...form.value, [key]: x }; };
  const fault = (key) => faults.value.find((f) => f.location?.split(" ")[0].endsWith("." + key))?.message;
  const field = (key, more) => html`<${Field} label=${t("schedules." + key)} value=${v[key]} change=${set(key)} error=${fault(key)} ...${more} />`;
  const save = async () => {
    const all = { ...Object.fromEntries(keys.map((key) => [key, v[key]])), [v.how]: v[v.how] };
    if (v.how === "every") all.timezone = "";
    faults.value = [];
    try {
      const made = of ? await send("PATCH", at`/schedules/${of.name}`, changed(all, of)) : await send("POST", "/schedules", { name: v.name, ...filled(all) });
      await done(made);
      close();
    } catch (error) {
      faults.value = error.errors ?? [];
      throw error;
    }
  };
  return html`<${Dialog} title=${t(of ? "schedules.changeTitle" : "schedules.addTitle")} close=${close} wide actions=${html`<${Button} kind="main" does=${save}>${t("schedules.save")}<//>`}>
    ${!of && field("name", { help: t("schedules.nameHelp"), autocomplete: "off" })}
    ${field("text", { rows: 4, help: t("schedules.textHelp") })}
    <div class="filters tops"><${Field} label=${t("schedules.how")} value=${v.how} change=${set("how")} options=${["cron", "every"].map((value) => ({ value, title: t("schedules.by" + value) }))} />
      ${v.how === "cron" ? html`${field("cron", { help: t("schedules.cronHelp"), autocomplete: "off" })}${field("timezone", { help: t("schedules.zoneHelp"), autocomplete: "off" })}`
        : field("every", { help: t("schedules.everyHelp"), autocomplete: "off" })}</div>
    ${v[v.how] && html`<div class="field"><b class="small">${t("schedules.upcoming")}</b><${Upcoming} timing=${v[v.how]} zone=${v.how === "cron" ? v.timezone : ""} /></div>`}
    <div class="filters tops">${field("agent", { help: t("schedules.agentHelp") })}${field("as", { help: t("schedules.asHelp") })}${field("deliver", { help: t("schedules.deliverHelp") })}</div>
    <div class="filters tops">${field("catch_up", { options: ["skip", "once", "all"].map((value) => ({ value, title: t("schedules." + value) })) })}${field("jitter", { help: t("schedules.jitterHelp"), autocomplete: "off" })}
      ${field("quiet", { help: t("schedules.quietHelp"), autocomplete: "off" })}</div><//>`;
}

const filled = (all) => Object.fromEntries(Object.entries(all).filter(([key, x]) => (x || key === "quiet") && x !== usual[key]));

// changed are the keys that are not as they were.
const changed = (all, of) => Object.fromEntries(Object.entries(all).filter(([key, x]) => x !== (of[key] ?? "")));
