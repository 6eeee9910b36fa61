// What an empty conversation shows.

import { byId, el } from "../lib/dom.js";

// introduce fills it: a notice, and messages to try, each of which a click sends.
export function introduce(intro, send) {
  const tries = intro.try ?? [];
  byId("intro-notice").hidden = !intro.notice;
  byId("intro-notice").textContent = intro.notice ?? "";
  byId("intro-lead").hidden = !tries.length;
  byId("intro-try").replaceChildren(...tries.map((s) => el("li", {},
    el("button", { type: "button", class: "quiet wide", onclick: () => send(s.text) },
      el("b", {}, s.text), el("span", { class: "small" }, s.does)))));
}
