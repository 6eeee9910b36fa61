// The files of a live sandbox's workspace. Programs choose their names; refs stand for them in addresses.

import { at, get } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { Button, Loaded, Notice, Page, Table, Text, When } from "../../lib/parts.js";
import { bytes, n, t } from "../../lib/text.js";
import { html } from "../../lib/ui.js";

const most = 64 << 20; // bytes of a file that the host gives out

const kinds = () => ({ file: t("sandboxes.file"), folder: t("sandboxes.folder"), link: t("sandboxes.aLink"), other: t("sandboxes.special") });

export function Files({ id, path }) {
  const folder = useLive(at`/sandboxes/${id}/files` + (path ? "?ref=" + encodeURIComponent(path) : ""));
  const address = (ref) => "#sandboxes/files/" + encodeURIComponent(id) + "/" + encodeURIComponent(ref);
  return html`<${Page} title=${t("sandboxes.filesOf", { id: id.slice(0, 12) })} actions=${html`<${Button} does=${folder.again}>${t("sandboxes.again")}<//>`}>
    <p><a href="#sandboxes">${t("sandboxes.title")}</a> · <a href=${"#sandboxes/files/" + encodeURIComponent(id)}>${t("sandboxes.workspace")}</a></p>
    <${Loaded} of=${folder}>${(f) => html`
      ${f.more > 0 && html`<${Notice} kind="warn">${n("sandboxes.moreFiles", f.more)}<//>`}
      <${Table} caption=${t("sandboxes.files")} rows=${f.entries} keyOf=${(e) => e.ref} empty=${t("sandboxes.noFiles")} columns=${[
        { title: t("sandboxes.name"), cell: (e) => (e.kind === "folder" ? html`<a href=${address(e.ref)}><${Text}>${e.name}<//></a>` : html`<${Text}>${e.name}<//>`) },
        { title: t("sandboxes.kind"), cell: (e) => html`${kinds()[e.kind]} <code class="small">${e.mode}</code>` },
        { title: t("sandboxes.size"), number: true, cell: (e) => (e.kind === "file" ? bytes(e.size) : "") },
        { title: t("sandboxes.changed"), cell: (e) => html`<${When} at=${e.mtime} />` },
        { title: t("shell.actions"), cell: (e) => (e.kind === "file" && e.size <= most || e.kind === "link") && html`<${Button} kind="quiet" does=${() => keep(id, e)}>${t("sandboxes.download")}<//>` },
      ]} />`}<//>
  <//>`;
}

// keep has the browser keep a file, under a name without what could mislead.
async function keep(id, e) {
  const blob = await get(at`/sandboxes/${id}/file` + "?ref=" + encodeURIComponent(e.ref));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = e.name.replace(/[\p{C}\p{Zl}\p{Zp}/\\"<>]/gu, "_") || "file";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
