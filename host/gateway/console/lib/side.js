// The side of the page, which a phone shows over the rest.

import { byId } from "./dom.js";

export function showSide(open) {
  document.body.classList.toggle("side", open);
  byId("veil").hidden = !open;
  if (open) byId(byId("chat-side").hidden ? "to-rooms" : "new").focus();
}

byId("open-side").addEventListener("click", () => showSide(true));
byId("close-side").addEventListener("click", () => showSide(false));
byId("veil").addEventListener("click", () => showSide(false));
addEventListener("keydown", (e) => {
  if (e.key !== "Escape" || !document.body.classList.contains("side")) return;
  showSide(false);
  (document.querySelector("main:not([hidden]) .only-phone") ?? byId("open-side")).focus();
});
