// Approval requests, in the chat and in every room: the call first, as a person would type it and never cut, then where it will run and who
// asked, a button for each answer, and the rest in a closed section.

import { el, clock, place, revealed } from "./dom.js";
import { may } from "./me.js";
import { t } from "./text.js";

const settle = 500; // milliseconds

// A larger call is shown with its size, because it may not fit its box.
const largeLines = 8;
const largeText = 400; // characters

// parts returns the call as texts with the names of all but the first, which is the command if there is one.
function parts(args) {
  if (args === null || typeof args !== "object" || Array.isArray(args)) return [["", JSON.stringify(args, null, 2) ?? ""]];
  const main = ["command", "script", "code"].find((name) => typeof args[name] === "string");
  const rest = Object.keys(args).filter((name) => name !== main);
  const text = (value) => typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return [...(main ? [["", args[main]]] : []), ...rest.map((name) => [name, text(args[name])])];
}

// callBox shows a call in a box that scrolls by itself, so that neither it nor the buttons leave the screen.
function callBox(args) {
  const shown = parts(args);
  const all = shown.map(([, text]) => text).join("\n");
  const lines = all.split("\n").length;
  const size = `${lines.toLocaleString("en")} lines, ${all.length.toLocaleString("en")} characters: scroll to see all`;
  return [
    el("div", { class: "asked", tabindex: "0", role: "group", "aria-label": "The call" },
      shown.map(([name, text]) => [name ? el("span", { class: "label" }, revealed(name)) : null, el("pre", {}, revealed(text))]).flat()),
    lines > largeLines || all.length > largeText ? el("p", { class: "small size" }, size) : null,
  ];
}

// conversation is the address of the conversation of a session, "channel:conversation:agent".
export function conversation(session) {
  const [channel, ...rest] = session.split(":");
  return "#/" + encodeURIComponent(channel) + "/" + encodeURIComponent(rest.slice(0, -1).join(":"));
}

// Approvals shows the list of pending requests in root and hands decisions to decide(id, grant, scope). lost is called when the card that
// has the keyboard goes.
export class Approvals {
  constructor(root, { decide, announce, lost }) {
    Object.assign(this, { root, decide, announce, lost });
    this.cards = new Map();
  }

  show(list, here) {
    const ids = new Set(list.map((a) => a.id));
    for (const [id, card] of this.cards) {
      if (!ids.has(id)) {
        const focused = card.contains(document.activeElement);
        card.remove();
        this.cards.delete(id);
        if (focused) this.lost();
      }
    }
    for (const [i, a] of list.entries()) {
      if (this.cards.has(a.id)) continue;
      const card = this.card(a, here);
      this.cards.set(a.id, card);
      this.root.insertBefore(card, this.root.children[i] ?? null); // the host may list it before those that are known
      this.announce(`Approval needed: ${a.tool} ${place(a.where)}`);
    }
  }

  // release enables the buttons again after a decision failed.
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
    const session = yes(a.session_shell ? "Session (like a shell)" : "Session", "session", "session");
    if (a.session_shell) session.title = `As good as a shell ${place(a.where)}: ${a.session_shell}`;
    const grants = [
      ...(a.may_standing ? [yes("Always (30 days)", "standing", "standing")] : []),
      ...(a.may_session ? [session] : []),
      yes("Once", "approve"),
    ];
    const card = el("article", { class: "approval", "aria-labelledby": title, "data-approval": a.id },
      callBox(a.args),
      el("h2", { id: title }, "Allow ", el("b", {}, revealed(a.tool)), " to run ", el("b", {}, revealed(place(a.where))), "?"),
      el("p", { class: "small" }, revealed(`Agent ${a.agent}, asked by ${a.requester}`), elsewhere ? [", in ", el("a", { href: conversation(a.session) }, revealed(a.session))] : null),
      a.not_shown?.length ? el("p", { class: "unshown" }, "Not shown, but followed: ", revealed(a.not_shown.join("; "))) : null,
      a.not_held ? el("p", { class: "unshown limits" }, "Limits ", revealed(a.not_held)) : null,
      el("details", {}, el("summary", { class: "small" }, "Why, and what each answer allows"),
        el("dl", {},
          (a.reasons ?? []).flatMap((r) => fact("Because", r)),
          fact("Folder", a.dir), fact("Until", a.expires ? clock(a.expires) : ""),
          fact("Session allows", a.session_covers),
          fact("Like a shell", a.session_shell),
          fact("Always allows", a.standing_covers), fact("Not always", a.session_shell ? "" : a.not_standing))),
      may("owner") ? el("div", { class: "buttons" }, el("button", { type: "button", class: "deny", onclick: () => answer(false) }, "Deny"), ...grants)
        : el("p", {}, t("signin.waits")));
    // A card that appears under a moving pointer must not receive the click.
    setTimeout(() => { for (const b of grants) b.disabled = false; }, settle);
    return card;
  }
}
