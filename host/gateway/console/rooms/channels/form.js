// The form of a channel, made of what its plugin asks for.

import { Value, valueOf } from "../../lib/fields.js";
import { html } from "../../lib/ui.js";

// settingsOf reads the drafts of a form: {settings, secrets, faults}; faults are by the place that the API names. Before is what is set now:
// what was set and is empty is unset.
export function settingsOf(fields, drafts, before = {}) {
  const out = { settings: {}, secrets: {}, faults: {} };
  for (const f of fields) {
    const draft = drafts[f.name];
    if (draft === undefined) continue;
    if (f.secret) {
      if (draft !== "") out.secrets[f.name] = draft;
      continue;
    }
    const { value, unset, error } = valueOf(f, draft);
    if (error) out.faults["settings." + f.name] = error;
    else if (!unset) out.settings[f.name] = value;
    else if (f.name in before) out.settings[f.name] = null;
  }
  return out;
}

// Fields are the inputs for fields; drafts are by name, faults by place.
export function Fields({ fields, drafts, change, faults }) {
  return fields.map((f) => html`<${Value} key=${f.name} of=${f} label=${f.title} draft=${drafts[f.name] ?? ""} change=${(draft) => change(f.name, draft)}
    error=${faultAt(faults, f)} required=${f.required || undefined} />`);
}

function faultAt(faults, f) {
  const place = (f.secret ? "secrets." : "settings.") + f.name;
  return faults[place] ?? Object.entries(faults).find(([at]) => at.startsWith(place + ".") || at.startsWith(place + " "))?.[1];
}

// elsewhere are the faults that belong to no field.
export const elsewhere = (faults, fields) => Object.entries(faults).filter(([at]) => !fields.some((f) => at.startsWith((f.secret ? "secrets." : "settings.") + f.name)))
  .map(([at, message]) => (at && at !== "secrets" ? at + ": " : "") + message);

// faultsOf are the faults of a problem of the API.
export const faultsOf = (error) => (error.errors?.length ? Object.fromEntries(error.errors.map((e) => [e.location ?? "", e.message])) : { "": error.message });
