// Approval requests: the whole call, never cut, where it will run, what each answer covers, and a button for each.

import { el, clock, revealed } from "./dom.js";
import { argumentRows, place } from "./calls.js";

const settle = 500; // milliseconds

// Approvals shows the list of pending requests in root and hands decisions to decide(id, grant, scope).
export class Approvals {
  constructor(root, decide, announce) {
    Object.assign(this, { root, decide, announce });
    this.cards = new Map();
  }

  show(list, here) {
    const ids = new Set(list.map((a) => a.id));
    for (const [id, card] of this.cards) {
      if (!ids.has(id)) {
        card.remove();
        this.cards.delete(id);
      }
    }
    for (const a of list) {
      if (this.cards.has(a.id)) continue;
      const card = this.card(a, here);
      this.cards.set(a.id, card);
      this.root.append(card);
      this.announce(`Approval needed: ${a.tool} ${place(a.where)}`);
    }
  }

  // release lets the buttons work again, after a decision did not get through.
  release() {
    for (const b of this.root.querySelectorAll("button")) b.disabled = false;
  }

  card(a, here) {
    const answer = (grant, scope) => {
      for (const b of card.querySelectorAll("button")) b.disabled = true;
      this.decide(a.id, grant, scope);
    };
    const yes = (words, name, scope) =>
      el("button", { type: "button", class: name, disabled: true, onclick: () => answer(true, scope) }, words);
    const elsewhere = a.session && !a.session.startsWith(here + ":");
    const fact = (name, value) => value ? [el("dt", {}, name), el("dd", {}, revealed(value))] : [];
    const title = "approval-" + a.id;
    const grants = [
      ...(a.may_standing ? [yes("Always (30 days)", "standing", "standing")] : []),
      ...(a.may_session ? [yes("Session", "session", "session")] : []),
      yes("Once", "approve"),
    ];
    const card = el("article", { class: "approval", "aria-labelledby": title, "data-approval": a.id },
      el("h2", { id: title }, "Allow ", el("b", {}, a.tool), " to run ", el("b", {}, place(a.where)), "?"),
      argumentRows(a.args),
      el("dl", {},
        fact("Folder", a.dir), fact("Agent", a.agent), fact("Asked by", a.requester),
        elsewhere ? fact("Conversation", a.session) : [],
        (a.reasons ?? []).flatMap((r) => fact("Because", r)),
        fact("Until", a.expires ? clock(a.expires) : ""),
        fact("Session allows", a.session_covers), fact("Always allows", a.standing_covers), fact("Not always", a.not_standing)),
      el("div", { class: "buttons" },
        el("button", { type: "button", class: "deny", onclick: () => answer(false) }, "Deny"),
        ...grants));
    // A card that slides under a pointer on its way to something else must not take the click.
    setTimeout(() => { for (const b of grants) b.disabled = false; }, settle);
    return card;
  }
}
