// The requests that wait for the person, and what shows them outside the chat: a bar in every room, which opens them.

import { at, get, send } from "./api.js";
import { Approvals } from "./approvals.js";
import { byId } from "./dom.js";
import { watch } from "./live.js";
import { Dialog, Notice } from "./parts.js";
import { n, t } from "./text.js";
import { html, signal, useEffect, useRef, useSignal } from "./ui.js";

// waiting are the requests; null before the host has told.
export const waiting = signal(null);

async function look() {
  try {
    waiting.value = await get("/approvals");
  } catch {
    // the page says that the host is away
  }
}

watch(["approvals"], look);

// Cards are the requests in full, with the answers.
export function Cards({ of: list }) {
  const root = useRef(null);
  const cards = useRef(null);
  const trouble = useSignal("");
  useEffect(() => {
    cards.current ??= new Approvals(root.current, {
      decide: async (id, grant, scope) => {
        trouble.value = "";
        try {
          await send("POST", at`/approvals/${id}/decision`, { grant, ...(scope && { scope }) });
        } catch (error) {
          trouble.value = error.message;
          cards.current.release();
        }
        await look();
      },
      announce: () => {},
      lost: () => (root.current.querySelector(".asked") ?? byId("room")).focus(),
    });
    cards.current.show(list, "");
  }, [list]);
  return html`${trouble.value && html`<${Notice} kind="bad">${trouble.value}<//>`}<div class="cards" ref=${root}></div>`;
}

// Waits is the bar.
export function Waits() {
  const open = useSignal(false);
  const list = waiting.value ?? [];
  useEffect(() => {
    if (!list.length) open.value = false;
    byId("urgent").textContent = list.length ? n("shell.request", list.length) : "";
  }, [list.length]);
  // The dialog gives the keyboard back to the bar, which may be gone.
  useEffect(() => { if (!open.value && document.activeElement === document.body) byId("room").focus({ preventScroll: true }); }, [open.value, list.length]);
  return html`${list.length > 0 && html`<div class="waits"><button type="button" class="button main" aria-haspopup="dialog" onClick=${() => { open.value = true; }}>${n("shell.request", list.length)}</button></div>`}
    ${open.value && html`<${Dialog} title=${t("today.waiting")} leave=${t("shell.later")} wide close=${() => { open.value = false; }}><${Cards} of=${list} /><//>`}`;
}
