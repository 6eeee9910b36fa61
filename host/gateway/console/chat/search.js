// The search over everything that was said: the hits stand in the place of the list of conversations.

import { byId, clock, el, revealed } from "../lib/dom.js";
import { get } from "../lib/api.js";
import { t } from "../lib/text.js";

const pause = 200; // milliseconds after the last letter

export class Search {
  // open(channel, id, turn) is called when a hit is chosen.
  constructor(open) {
    this.open = open;
    const field = byId("search");
    field.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.look(), pause);
    });
    field.addEventListener("keydown", (e) => {
      if (e.key === "ArrowDown") byId("hits").querySelector("button")?.focus();
      if (e.key !== "Escape" || !field.value) return;
      e.stopPropagation();
      field.value = "";
      this.look();
    });
    byId("search-form").addEventListener("submit", (e) => { e.preventDefault(); this.look(); });
  }

  // look asks for the hits of what is typed; an answer that comes after another question counts for nothing.
  async look() {
    clearTimeout(this.timer);
    const words = byId("search").value.trim();
    this.asked?.abort();
    byId("results").hidden = !words;
    byId("lists").hidden = Boolean(words);
    if (!words) return;
    this.asked = new AbortController();
    this.words = words;
    byId("hits").replaceChildren();
    await this.page("", this.asked.signal);
  }

  async page(cursor, signal) {
    const query = new URLSearchParams({ q: this.words.slice(0, 200), limit: 30, ...(cursor && { cursor }) });
    try {
      const { items, next } = await get("/search?" + query, { signal });
      byId("hits").append(...items.map((hit) => this.line(hit)));
      byId("found").textContent = items.length || cursor ? "" : t("chat.nothingFound");
      byId("more-hits").hidden = !next;
      byId("more-hits").onclick = () => this.page(next, signal);
    } catch (error) {
      if (!signal.aborted) byId("found").replaceChildren(...revealed(error.message));
    }
  }

  line(hit) {
    return el("li", {}, el("button", { type: "button", onclick: () => this.open(hit.channel, hit.conversation, hit.turn) },
      el("span", { class: "name" }, hit.title || hit.conversation),
      el("span", { class: "excerpt" }, hit.parts.map((p) => (p.hit ? el("mark", {}, revealed(p.text)) : el("span", {}, revealed(p.text))))),
      el("span", { class: "sub" }, (hit.from === "user" ? t("chat.said") : hit.agent) + " · " + clock(hit.time))));
  }
}
