// What a module answers to the cases in its policy's folder.

import { Badge, Notice, Table, Text } from "../../lib/parts.js";
import { number, t } from "../../lib/text.js";
import { html } from "../../lib/ui.js";

export const Report = ({ of: r }) => html`<${Notice} kind=${r.failed ? "bad" : "good"}>${t("policies.ran", { passed: number(r.passed), failed: number(r.failed) })}<//>
  <${Table} caption=${t("policies.cases")} rows=${r.cases ?? []} keyOf=${(c) => c.file + "/" + c.name} columns=${[
    { title: t("policies.name"), cell: (c) => html`<${Text}>${c.name}<//> <div class="small"><${Text}>${c.file}<//></div>` },
    { title: t("policies.result"), cell: (c) => html`<${Badge} kind=${c.passed ? "good" : "bad"}>${c.passed ? t("policies.passed") : t("policies.fails")}<//>` },
    { title: t("policies.differs"), cell: (c) => (c.diffs ?? []).map((d) => html`<div><${Text}>${t("policies.wanted", d)}<//></div>`) },
  ]} />`;
