// You: what the host has of the person who is signed in, and where.

import { at } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { me } from "../lib/me.js";
import { Loaded, Page } from "../lib/parts.js";
import { t } from "../lib/text.js";
import { html } from "../lib/ui.js";
import { About, Data, SignIns } from "./people/person.js";

export function Room() {
  const person = useLive(at`/people/${me.sender}`, "people", "sign-ins", "usage");
  return html`<${Page} title=${t("me.title")} lead=${t("me.lead")}><${Loaded} of=${person}>${(p) => html`
    <${About} of=${p} /><${SignIns} of=${p.sign_ins} changed=${person.again} /><${Data} of=${p} />`}<//><//>`;
}
