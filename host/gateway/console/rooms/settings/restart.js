// Flynn restarts: for an edit, or because keys wait for it.

import { get, send } from "../../lib/api.js";
import { Danger, Notice, Text } from "../../lib/parts.js";
import { t } from "../../lib/text.js";
import { token } from "../../lib/token.js";
import { html, useEffect, useSignal } from "../../lib/ui.js";

const pace = 500; // milliseconds between two looks whether Flynn is back

// Restart asks, and restarts Flynn with the file as it is.
export function Restart({ began }) {
  return html`<${Danger} word=${t("settings.restart")} question=${t("settings.restartQuestion")}
    does=${async () => {
      const since = await running();
      began({ ...await send("POST", "/restart"), since });
    }}>${t("settings.restart")}<//>`;
}

// running is since when the Flynn that answers runs.
export const running = async () => (await get("/status")).started;

// Restarting tells how a restart goes: moved is the console's address afterwards, if it is another one.
export function Restarting({ of: { moved, since }, back }) {
  const done = useSignal(false);
  useEffect(() => {
    let timer = 0;
    const look = async () => {
      const now = await running().catch(() => since);
      if (now === since) {
        timer = setTimeout(look, pace);
        return;
      }
      done.value = true;
      back();
    };
    look();
    return () => clearTimeout(timer);
  }, [since]);
  if (done.value) return html`<${Notice} kind="good">${t("settings.restarted")}<//>`;
  return html`<${Notice}>${t("settings.restarting")}${moved && html` ${t("settings.moved")} <a href=${moved + "#token=" + encodeURIComponent(token)}><${Text}>${moved}<//></a>`}<//>`;
}
