// Keeps the keyboard focus: when the focused element is removed, hidden or disabled, the focus moves to what is shown instead.

import { byId } from "./dom.js";

let last = null; // that had the focus
let due = 0;

function keep() {
  due = 0;
  const now = document.activeElement;
  if (!last || now !== document.body && now.checkVisibility() || last.isConnected && last.disabled) return;
  const back = last.isConnected && last.checkVisibility() ? last : document.querySelector("dialog[open] button") ?? byId(byId("chat").hidden ? "room" : "scroll");
  back.focus({ preventScroll: true });
}

addEventListener("focusin", (e) => { last = e.target; });
addEventListener("pointerdown", () => { last = null; }, true); // the person leaves it
// The browser takes the focus from what is hidden after the frame.
new MutationObserver(() => { due ||= requestAnimationFrame(() => setTimeout(keep)); })
  .observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden", "disabled", "open"] });
