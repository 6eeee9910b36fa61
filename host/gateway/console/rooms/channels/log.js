// The log of an instance of a plugin.

import { at, get } from "../../lib/api.js";
import { Badge, Empty, Section, Text, When } from "../../lib/parts.js";
import { watch } from "../../lib/live.js";
import { t } from "../../lib/text.js";
import { html, useEffect, useSignal } from "../../lib/ui.js";

const every = 3000; // milliseconds between two looks while the log is on the screen
const most = 200;   // lines

export function Log({ instance }) {
  const lines = useSignal([]);
  useEffect(() => {
    let current = true;
    const load = async () => {
      if (document.visibilityState === "hidden") return;
      const after = lines.value.at(-1)?.seq ?? 0;
      try {
        const next = await get(at`/plugins/${instance}/logs` + "?after=" + after);
        if (current && next.length) lines.value = [...lines.value, ...next].slice(-most);
      } catch {
        // the state of the channel says why
      }
    };
    load();
    const timer = setInterval(load, every);
    const end = watch(["plugins"], load);
    return () => {
      current = false;
      clearInterval(timer);
      end();
    };
  }, [instance]);
  return html`<${Section} title=${t("channels.log")}>
    ${lines.value.length === 0 ? html`<${Empty}>${t("channels.noLog")}<//>` : html`<ul class="lines logs" tabindex="0" aria-label=${t("channels.log")}>${lines.value.toReversed().map((l) => html`<li key=${l.seq}>
      <${Badge} kind=${{ ERROR: "bad", WARN: "warn" }[l.level.toUpperCase()] ?? ""}>${l.level}<//> <${Text}>${l.text}<//> <${When} at=${l.time} /></li>`)}</ul>`}<//>`;
}
