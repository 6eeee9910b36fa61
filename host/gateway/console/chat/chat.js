// The chat. The address's fragment is the conversation, #/CHANNEL/ID, so that each has its own address and the back button works.

import { byId, revealed } from "../lib/dom.js";
import { fresh, may, me, writes } from "../lib/me.js";
import { keep, token, tokenIn } from "../lib/token.js";
import { Approvals } from "../lib/approvals.js";
import { watch } from "../lib/live.js";
import { Actions } from "./actions.js";
import { addressed, addressOf, parts } from "./address.js";
import { Composer } from "./composer.js";
import { atOnce, Earlier } from "./earlier.js";
import { Files } from "./files.js";
import { introduce } from "./intro.js";
import { Pairings } from "./pairings.js";
import { Panel } from "./panel.js";
import { Removal } from "./removal.js";
import { Search } from "./search.js";
import { Socket } from "./socket.js";
import { Transcript } from "./transcript.js";
import { Undo } from "./undo.js";
import { Why } from "./why.js";
import { showSide } from "../lib/side.js";

const draft = byId("draft");
const longest = 64 * 1024; // bytes of a message
const scroll = byId("scroll");

const transcript = new Transcript(byId("transcript"), {
  changed: () => { byId("empty").hidden = !transcript.empty; }, // the end stays in view when the column grows, see resized
  running,
  reply: (text) => { byId("polite").textContent = text; panel.refresh(); },
  retry: (id, text) => submit(id, text),
  edit: (key, text) => edit(key, text),
  fork: (key) => actions.fork(key),
  undo: () => undo.ask(), writes: () => writes(...parts(here)),
  why: (turn) => why.show(turn),
  again: () => socket.history(),
  following: () => atEnd && !byId("transcript").contains(document.activeElement) && getSelection().isCollapsed,
});
const announce = (text) => {
  byId("urgent").textContent = text;
  follow();
};
const lost = () => draft.focus(); // the button goes, and with it the keyboard's place
const approvals = new Approvals(byId("approvals"), { decide: (...answer) => { socket.decide(...answer); lost(); }, announce, lost });
const pairings = new Pairings(byId("pairings"), token, announce, notice);
const panel = new Panel(token, (channel, id) => { openConversation(channel, id); showSide(false); }, () => socket.history());

new Removal(token, { chosen: () => panel.chosen(), done: deleted });

const undo = new Undo(() => parts(here));
const files = new Files({ channel: () => parts(here)[0], trouble: notice });
const actions = new Actions({
  here: () => parts(here),
  chosen: () => panel.chosen(),
  open: openConversation,
  changed: () => panel.refresh(),
  trouble: notice,
  say: (text) => { byId("polite").textContent = text; },
});
const earlier = new Earlier(scroll, (entries) => {
  atEnd = false;
  transcript.before(entries);
}, notice);
new Search((channel, id, turn) => {
  found = turn;
  openConversation(channel, id);
  showSide(false);
});

const why = new Why((path) => panel.get(path));

let socket;
let here = "";
let found = ""; // the turn that a search has led to, until it is shown
let told = ""; // about the conversation, once it is there
let atEnd = true;
let sendingFiles = false;

addEventListener("popstate", () => {
  const to = addressed();
  if (to && socket && to.join(":") !== here) openConversation(...to);
});

function openConversation(channel, id, why = "") {
  told = why;
  socket?.close();
  composer.keep();
  const address = addressOf(channel, id);
  if (location.hash !== address) history[here ? "pushState" : "replaceState"](null, "", address);
  here = channel + ":" + id;
  signingIn(false);
  sessionStorage.setItem("flynn.conversation", JSON.stringify([channel, id]));
  transcript.clear();
  running(false);
  approvals.show([], here);
  panel.select(here);
  files.clear(); // they were for the conversation that was shown
  composer.load();
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
  openConversation(...fresh());
  byId("polite").textContent = "The conversation is deleted.";
  draft.focus();
}

function frame(f) {
  switch (f.type) {
    case "welcome":
      notice(told, "info");
      byId("composer").hidden = !f.write;
      byId("read-only").hidden = Boolean(f.write);
      byId("read-only").textContent = "This conversation is on channel " + f.channel + ". Here it is read-only.";
      introduce(f.intro ?? {}, (text) => { submit(crypto.randomUUID(), text); draft.focus(); });
      approvals.release();
      panel.refresh();
      if (may("owner")) pairings.refresh();
      break;
    case "history":
      transcript.history(f.entries.slice(-atOnce), f.live ?? [], socket.unsent());
      earlier.from(here, f.earlier ?? "", f.entries.slice(0, -atOnce));
      showFound();
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

function state(name, detail) {
  const words = { connecting: "Connecting", connected: "Connected", waiting: "Reconnecting", refused: "Not signed in", denied: "Not yours" };
  byId("connection").className = "connection " + name;
  byId("connection").textContent = words[name];
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
  keep(tokenIn(given) || given);
  location.reload();
});

function notice(text, kind = "") {
  byId("notice").hidden = !text;
  byId("notice").className = "notice " + kind;
  byId("notice").replaceChildren(...revealed(text));
}

function running(is) {
  byId("working").hidden = !is;
  byId("stop").hidden = !is;
}

// submit sends a text, or sends it again under its id.
function submit(id, text, list = []) {
  notice(told = "");
  transcript.user(id, text, "sending", undefined, undefined, list.map((f) => f.name));
  running(true);
  socket.send(id, text, list);
  atEnd = true;
  follow();
}

const composer = new Composer(() => here, async (text) => {
  if (!text.trim() && files.empty || !socket || sendingFiles) return;
  if (new TextEncoder().encode(text).length > longest) {
    notice("This message is longer than 64 KiB. Put it in a file and give the path of the file.");
    return;
  }
  const to = here;
  let list = [];
  if (!files.empty) {
    sendingFiles = true;
    list = await files.taken();
    sendingFiles = false;
    if (!list || here !== to) return; // the draft stays, with why
  }
  if (composer.text === text) composer.text = "";
  submit(crypto.randomUUID(), text, list);
  draft.focus();
});

// edit takes a message back into the field, in a new conversation with what was said before it.
async function edit(key, text) {
  const from = here;
  await actions.fork(key, true);
  if (here === from) return; // the notice says why
  composer.text = text;
  draft.focus();
}

// showFound brings what a search has found into view.
async function showFound() {
  const turn = found;
  found = "";
  const node = turn && await earlier.find(turn);
  if (!node) return;
  atEnd = false;
  node.scrollIntoView({ block: "center" });
}

byId("stop").addEventListener("click", () => socket.stop());
byId("new").addEventListener("click", () => {
  openConversation(...fresh());
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

// The lists follow the host, which tells of changes.
watch(["conversations", "halt", "plugins", "policies", "configuration", "approvals", "sandboxes"], async () => { if (socket) await panel.refresh(); });
watch(["people"], async () => { if (socket && may("owner")) await pairings.refresh(); });

// start opens the conversation of the address, else that of this window, else the newest.
export async function start() {
  if (socket) return;
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
  if (last && !may("owner") && !writes(...last)) last = null; // of somebody who was here before
  const to = addressed() ?? last ?? await newest() ?? [me.channel, me.prefix + "main"];
  if (!socket) openConversation(...to); // nobody was faster
  draft.focus();
}

async function newest() {
  try {
    const c = (await panel.get("/api/v1/conversations?from=people&limit=500")).items.find((c) => c.channel === me.channel && writes(c.channel, c.id));
    return c && [c.channel, c.id];
  } catch {
    return null; // the socket says what is wrong
  }
}

// address is the fragment of the conversation that is shown; empty before the first.
export const address = () => (here ? addressOf(...parts(here)) : "");
