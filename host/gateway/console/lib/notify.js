// Notifications of the browser: a request that waits for the person, while the page is not looked at. The person turns them on; they say
// which agent and which tool, and nothing of the call, because a locked screen shows them.

import { conversation } from "./approvals.js";
import { stay } from "./live.js";
import { t } from "./text.js";
import { effect, signal } from "./ui.js";
import { waiting } from "./waits.js";

const key = "flynn.notify";
export const possible = typeof Notification !== "undefined";

// wanted is true while notifications are on.
export const wanted = signal(possible && localStorage.getItem(key) === "on" && Notification.permission === "granted");

effect(() => { stay.value = wanted.value; });

// want turns notifications on, if the browser lets the page, or off.
export async function want(on) {
  if (on && await Notification.requestPermission() !== "granted") throw new Error(t("shell.notAllowed"));
  localStorage.setItem(key, on ? "on" : "off");
  wanted.value = on;
}

let known = null; // ids of requests that the person was told of, or saw

effect(() => {
  const list = waiting.value;
  if (!possible || !list) return;
  const fresh = known ? list.filter((a) => !known.has(a.id)) : [];
  known = new Set(list.map((a) => a.id));
  if (!wanted.value || document.visibilityState === "visible") return;
  for (const a of fresh) {
    const note = new Notification(t("shell.waits"), { body: t("today.approval", { agent: a.agent, tool: a.tool }), tag: a.id, icon: "icon.svg" });
    note.onclick = () => {
      window.focus();
      location.hash = conversation(a.session);
      note.close();
    };
  }
});
