// Pairing requests: who, where, the code that the stranger was given, and two buttons.

import { byId, el, clock, revealed } from "../lib/dom.js";

const settle = 500; // milliseconds

// asks reports whether a request is open. A sender with a role in flynn.toml has access already.
const asks = (e) => e.state === "open" && (!e.configured || e.configured === "blocked");

// Pairings shows the open requests in root. It fetches them itself: they belong to no conversation.
export class Pairings {
  constructor(root, token, announce, notice) {
    Object.assign(this, { root, token, announce, notice });
    this.cards = new Map(); // by code
  }

  async ask(path, body) {
    const answer = await fetch(path, {
      method: body ? "POST" : "GET", body: body && JSON.stringify(body), cache: "no-store", signal: AbortSignal.timeout(10000),
      headers: { Authorization: "Bearer " + this.token, "Content-Type": "application/json" },
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.detail || path + " answered " + answer.status);
    return said;
  }

  async refresh() {
    try {
      this.show((await this.ask("/api/v1/people")).filter(asks));
    } catch {
      // The panel shows that the host is not reachable.
    }
  }

  show(list) {
    const codes = new Set(list.map((e) => e.code));
    for (const [code, card] of this.cards) {
      if (codes.has(code)) continue;
      card.remove();
      this.cards.delete(code);
    }
    for (const e of list) {
      if (this.cards.has(e.code)) continue;
      const card = this.card(e);
      this.cards.set(e.code, card);
      this.root.append(card);
      this.announce(`${e.sender} asks to be let in`);
    }
  }

  card(e) {
    const buttons = (disabled) => { for (const b of card.querySelectorAll("button")) b.disabled = disabled; };
    const decide = async (approve) => {
      buttons(true);
      try {
        await this.ask("/api/v1/people/decision", { code: e.code, approve });
      } catch (error) {
        this.notice(error.message);
        buttons(false);
      }
      this.refresh();
      byId("draft").focus();
    };
    const fact = (name, value) => value ? [el("dt", {}, name), el("dd", {}, revealed(value))] : [];
    const title = "pairing-" + e.code;
    const approve = el("button", { type: "button", class: "approve", disabled: true, onclick: () => decide(true) }, "Let in");
    const card = el("article", { class: "approval pairing", "aria-labelledby": title, "data-code": e.code },
      el("h2", { id: title }, "Let ", el("b", {}, revealed(e.sender)), " in?"),
      el("dl", {},
        fact("Code", e.code), fact("Name", e.name), fact("Blocked", e.configured === "blocked" ? "by flynn.toml, which overrides this" : ""),
        fact("Until", e.expires ? clock(e.expires) : "")),
      el("p", { class: "small" }, "Only if the person you mean has told you this code."),
      el("div", { class: "buttons" },
        el("button", { type: "button", class: "deny", onclick: () => decide(false) }, "Turn down"),
        approve));
    // A card that appears under a moving pointer must not receive the click.
    setTimeout(() => { approve.disabled = false; }, settle);
    return card;
  }
}
