// The sections of flynn.toml, as a list.

import { Field } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { html } from "../../lib/ui.js";

export function Sections({ keys, now, drafts, open }) {
  const sections = [...new Set(keys.map((k) => (k.key.length > 1 || ["named", "tables"].includes(k.type) ? k.key[0] : "")))];
  const count = (section) => drafts.filter((d) => (d.key.key.length > 1 ? d.key.key[0] : "") === section).length;
  const all = [...sections.map((s) => [s, s || t("settings.top"), count(s)]), ...["secrets", "history", "file"].map((s) => [s, t("settings." + s), 0])];
  return html`<nav class="settings-sections" aria-label=${t("settings.sections")}><ul>${all.map(([name, title, marked]) => html`<li key=${name}>
      <a href=${"#settings/" + encodeURIComponent(name)} aria-current=${name === now ? "page" : undefined}>${title}${marked > 0 && html` <span class="badge info">${marked}</span>`}</a></li>`)}</ul></nav>
    <div class="settings-choice"><${Field} label=${t("settings.section")} value=${now} change=${(name) => open(name)} options=${all.map(([value, title, marked]) => ({ value, title: marked ? title + " (" + marked + ")" : title }))} /></div>`;
}
