// The chat page. The token comes in the address's fragment or is typed, moves to sessionStorage and leaves the address bar. Otherwise the
// fragment is the conversation, #/CHANNEL/ID, so that each has its own address and the back button works.

import { byId, el, revealed } from "./dom.js";
import { Approvals } from "./approvals.js";
import { Pairings } from "./pairings.js";
import { Panel } from "./panel.js";
import { Removal } from "./removal.js";
import { Socket } from "./socket.js";
import { Transcript } from "./transcript.js";
import { Why } from "./why.js";

const draft = byId("draft");
const longest = 64 * 1024; // bytes of a message
const scroll = byId("scroll");
const token = takeToken();

const transcript = new Transcript(byId("transcript"), {
  changed: follow,
  running,
  reply: (text) => { byId("polite").textContent = text; panel.refresh(); },
  retry: submit,
  why: (turn) => why.show(turn),
  again: () => socket.history(),
});
const approvals = new Approvals(byId("approvals"), (id, grant, scope) => {
  socket.decide(id, grant, scope);
  draft.focus(); // the button goes, and with it the keyboard's place
}, (text) => {
  byId("urgent").textContent = text;
  follow();
});
const pairings = new Pairings(byId("pairings"), token, (text) => {
  byId("urgent").textContent = text;
  follow();
}, notice);
const panel = new Panel(token, (channel, id) => { openConversation(channel, id); showSide(false); });

new Removal(token, { chosen: () => panel.chosen(), done: deleted });

const why = new Why((path) => panel.get(path));

let socket;
let here = "";
let atEnd = true;

function takeToken() {
  const given = tokenIn(location.hash);
  if (given) {
    sessionStorage.setItem("flynn.token", given);
    history.replaceState(null, "", location.pathname);
  }
  return given || sessionStorage.getItem("flynn.token") || "";
}

// tokenIn is the token of an address; nothing if it has none.
function tokenIn(address) { return new URLSearchParams(address.slice(address.indexOf("#") + 1)).get("token"); }

// A browser that only changes the fragment does not load the page again.
addEventListener("hashchange", () => { if (location.hash.includes("token=")) location.reload(); });

// addressed is the conversation in the address bar; null for none.
function addressed() {
  const parts = location.hash.split("/");
  if (parts.length !== 3 || parts[0] !== "#") return null;
  try {
    return parts.slice(1).map(decodeURIComponent);
  } catch {
    return null; // somebody has typed it
  }
}

addEventListener("popstate", () => {
  const to = addressed();
  if (to && socket && to.join(":") !== here) openConversation(...to);
});

function openConversation(channel, id) {
  socket?.close();
  keepDraft();
  const address = "#/" + encodeURIComponent(channel) + "/" + encodeURIComponent(id);
  if (location.hash !== address) history[here ? "pushState" : "replaceState"](null, "", address);
  here = channel + ":" + id;
  signingIn(false);
  sessionStorage.setItem("flynn.conversation", JSON.stringify([channel, id]));
  transcript.clear();
  running(false);
  approvals.show([], here);
  panel.select(here);
  draft.value = sessionStorage.getItem("flynn.draft." + here) ?? "";
  grow();
  atEnd = true;
  byId("empty").hidden = true;
  socket = new Socket(token, channel, id, { frame, state });
}

// deleted opens a new conversation. An unsent draft is dropped with the old one.
function deleted(c) {
  if (c.channel + ":" + c.id !== here) {
    panel.refresh();
    return;
  }
  draft.value = "";
  socket.drop();
  openConversation("web", crypto.randomUUID());
  byId("polite").textContent = "The conversation is deleted.";
  draft.focus();
}

function frame(f) {
  switch (f.type) {
    case "welcome":
      byId("composer").hidden = !f.write;
      byId("read-only").hidden = Boolean(f.write);
      byId("read-only").textContent = "This conversation is on channel " + f.channel + ". Here it is read-only.";
      introduce(f.intro ?? {});
      approvals.release();
      panel.refresh();
      pairings.refresh();
      break;
    case "history":
      transcript.history(f.entries, f.live ?? [], socket.unsent());
      break;
    case "event":
      transcript.event(f.event);
      break;
    case "accepted":
      transcript.user(f.id, "", "sent"); // the turn may be over by now: events tell, not this
      panel.refresh();
      break;
    case "approvals":
      approvals.show(f.approvals, here);
      break;
    case "error":
      if (f.id) {
        transcript.user(f.id, "", "failed");
        running(false);
      }
      approvals.release();
      notice(f.message);
      break;
  }
}

// introduce fills what an empty conversation shows: a notice, and messages to try, each of which a click sends.
function introduce(intro) {
  const tries = intro.try ?? [];
  byId("intro-notice").hidden = !intro.notice;
  byId("intro-notice").textContent = intro.notice ?? "";
  byId("intro-lead").hidden = !tries.length;
  byId("intro-try").replaceChildren(...tries.map((s) => el("li", {},
    el("button", { type: "button", class: "quiet wide", onclick: () => { submit(crypto.randomUUID(), s.text); draft.focus(); } },
      el("b", {}, s.text), el("span", { class: "small" }, s.does)))));
}

function state(name, detail) {
  const words = { connecting: "Connecting", connected: "Connected", waiting: "Reconnecting", refused: "Not signed in" };
  byId("connection").className = "connection " + name;
  byId("connection").textContent = words[name];
  if (name === "connected") notice("");
  if (name === "refused") signIn(detail);
}

// signIn asks for the token.
function signIn(why) {
  notice(why);
  byId("composer").hidden = true;
  signingIn(true);
  byId("token").focus();
}

function signingIn(is) {
  byId("sign-in").hidden = !is;
  byId("scroll").hidden = is;
}

byId("sign-in").addEventListener("submit", (e) => {
  e.preventDefault();
  const given = byId("token").value.trim();
  if (!given) return;
  sessionStorage.setItem("flynn.token", tokenIn(given) || given);
  location.reload();
});

function notice(text) {
  byId("notice").hidden = !text;
  byId("notice").replaceChildren(...revealed(text));
}

function running(is) {
  byId("working").hidden = !is;
  byId("stop").hidden = !is;
}

// submit sends a text, or sends it again under its id.
function submit(id, text) {
  notice("");
  transcript.user(id, text, "sending");
  running(true);
  socket.send(id, text);
  atEnd = true;
  follow();
}

byId("composer").addEventListener("submit", (e) => {
  e.preventDefault();
  const text = draft.value;
  if (!text.trim() || !socket) return;
  if (new TextEncoder().encode(text).length > longest) {
    notice("This message is longer than 64 KiB. Put it in a file and give the path of the file.");
    return;
  }
  draft.value = "";
  keepDraft();
  grow();
  submit(crypto.randomUUID(), text);
  draft.focus();
});

// An input method uses Enter to choose a word.
const sends = (e) => e.key === "Enter" && !e.shiftKey && !e.isComposing;
draft.addEventListener("keydown", (e) => {
  if (!sends(e)) return;
  e.preventDefault();
  byId("composer").requestSubmit();
});
// Some input tools deliver the character apart from the key.
draft.addEventListener("keypress", (e) => { if (sends(e)) e.preventDefault(); });
draft.addEventListener("input", () => { keepDraft(); grow(); });

function keepDraft() {
  if (!here) return;
  if (draft.value) sessionStorage.setItem("flynn.draft." + here, draft.value);
  else sessionStorage.removeItem("flynn.draft." + here);
}

// grow fits the field to its text, within what the style allows.
function grow() {
  draft.style.height = "auto";
  draft.style.height = draft.scrollHeight + "px";
}

byId("stop").addEventListener("click", () => socket.stop());
byId("new").addEventListener("click", () => {
  openConversation("web", crypto.randomUUID());
  showSide(false);
  draft.focus();
});

// follow keeps the end in view unless the person has scrolled away from it.
function follow() {
  byId("empty").hidden = !transcript.empty;
  if (atEnd) scroll.scrollTop = scroll.scrollHeight;
  byId("latest").hidden = atEnd;
}

scroll.addEventListener("scroll", () => {
  atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  byId("latest").hidden = atEnd;
});
byId("latest").addEventListener("click", () => { atEnd = true; follow(); });
const resized = new ResizeObserver(() => { if (atEnd) scroll.scrollTop = scroll.scrollHeight; });
resized.observe(scroll);
resized.observe(scroll.firstElementChild);

function showSide(open) {
  document.body.classList.toggle("side", open);
  byId("veil").hidden = !open;
  if (open) byId("new").focus();
}
byId("open-side").addEventListener("click", () => showSide(true));
byId("close-side").addEventListener("click", () => showSide(false));
byId("veil").addEventListener("click", () => showSide(false));
addEventListener("keydown", (e) => {
  if (e.key === "Escape" && document.body.classList.contains("side")) {
    showSide(false);
    byId("open-side").focus();
  }
});

setInterval(() => {
  if (document.visibilityState !== "visible") return;
  panel.refresh();
  pairings.refresh();
}, 15000);

// start opens the conversation of the address, else that of this window, else the newest.
async function start() {
  if (!token) {
    state("refused", "");
    return;
  }
  let last;
  try {
    last = JSON.parse(sessionStorage.getItem("flynn.conversation"));
  } catch {
    last = null;
  }
  const to = addressed() ?? last ?? await newest() ?? ["web", "main"];
  if (!socket) openConversation(...to); // nobody was faster
  draft.focus();
}

async function newest() {
  try {
    const c = (await panel.get("/api/v1/conversations")).find((c) => c.channel === "web");
    return c && [c.channel, c.id];
  } catch {
    return null; // the socket says what is wrong
  }
}

start();
