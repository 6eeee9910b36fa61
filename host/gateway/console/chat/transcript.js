// The transcript: history and events of one conversation as nodes. Both may contain the same reply; replies are
// matched by key, tool calls by id, and committed text replaces streamed text. Messages that wait for a turn are last,
// in every window and after every reload.

import { el, clock, revealed } from "../lib/dom.js";
import { t } from "../lib/text.js";
import { markdown } from "./markdown.js";
import { CallCard } from "./calls.js";

const frame = 16;     // milliseconds
const longest = 1500; // nodes that grow without being looked at

export class Transcript {
  // hooks: changed(), running(bool), reply(text), retry(id, text), why(turn), again(), following(), edit(key, text), fork(key),
  // undo(), writes().
  constructor(root, hooks) {
    this.root = root;
    this.hooks = hooks;
    this.folds = new Map(); // open or not, by call, as the person left it
    this.clear();
  }

  clear() {
    for (const [id, card] of this.calls ?? []) if (card.toggled) this.folds.set(id, card.node.open);
    this.users = new Map();
    this.queue = new Map(); // those of users that wait for a turn, in order
    this.calls = new Map();
    this.replies = new Set();
    this.ended = new Set(); // turns
    this.worked = new Set(); // turns that used a tool
    this.streams = new Map(); // turn -> text in the making
    this.root.replaceChildren();
  }

  get empty() { return !this.root.firstChild; }

  // history replaces everything but unsent messages. live are the events of the running turns, shown after it.
  history(entries, live, unsent) {
    this.clear();
    let running = false;
    for (const e of entries) {
      running = !(e.from === "agent" && (e.key || e.is_error));
      this.entry(e);
    }
    for (const m of unsent) this.user(m.id, m.text, "sending", undefined, undefined, m.files?.map((f) => f.name));
    if (!running && !live.length) this.abandon();
    this.hooks.running(running);
    for (const e of live) this.event(e);
    this.hooks.changed();
  }

  entry(e) {
    if (e.from === "user") this.user(e.key, e.text ?? "", "sent", e.time, e.turn, e.files);
    else if (e.from === "tool") this.pastCall(e);
    else this.agent(e);
  }

  // before shows entries that came before all that is shown.
  before(entries) {
    this.anchor = this.root.firstChild;
    for (const e of entries) this.entry(e);
    this.anchor = null;
  }

  // put shows a node after everything but the messages that wait for a turn.
  put(node) {
    const [first] = this.queue.values();
    this.root.insertBefore(node, this.anchor ?? first ?? null);
  }

  // take ends the wait of the messages that a turn answers.
  take(ids) {
    for (const id of ids) {
      const node = this.queue.get(id);
      if (!node) continue;
      this.queue.delete(id);
      this.put(node);
    }
  }

  // user shows a message of the person, or changes its state: sending, sent or failed. Without a turn it waits for one.
  user(id, text, state, time, turn, files) {
    let node = this.users.get(id);
    if (!node) {
      node = el("div", { class: "message user", "data-id": id }, el("div", { class: "bubble" }, text), fileList(files), el("div", { class: "meta" }));
      node.querySelector(".bubble").hidden = !text && Boolean(files?.length);
      this.users.set(id, node);
      this.root.insertBefore(node, this.anchor ?? null);
      if (!turn) this.queue.set(id, node);
    }
    text = node.querySelector(".bubble").textContent;
    node.dataset.state = state;
    const meta = node.querySelector(".meta");
    meta.replaceChildren();
    if (state === "sending") meta.append("Sending");
    else if (state === "failed") meta.append("Not sent ", el("button", { type: "button", class: "link", onclick: () => this.hooks.retry(id, text) }, "Try again"));
    else {
      if (time) node.title = clock(time);
      if (turn || node.dataset.turn) meta.append(this.editButton(id, text));
    }
    this.hooks.changed();
  }

  // answered marks the messages of a turn that has ended: from then on they can be edited.
  answered() {
    for (const [id, node] of this.users) {
      if (this.queue.has(id) || node.dataset.turn || node.dataset.state !== "sent") continue;
      node.dataset.turn = "ended";
      node.querySelector(".meta").append(this.editButton(id, node.querySelector(".bubble").textContent));
    }
  }

  editButton(id, text) {
    return el("button", { type: "button", class: "link edit", "aria-label": t("chat.editLabel"), onclick: () => this.hooks.edit(id, text) }, t("chat.edit"));
  }

  forkButton(key) {
    return el("button", { type: "button", class: "link fork", "aria-label": t("chat.forkLabel"), onclick: () => this.hooks.fork(key) }, t("chat.fork"));
  }

  agent(e) {
    if (e.key && this.replies.has(e.key)) return;
    if (e.key) this.replies.add(e.key);
    if (e.key || e.is_error) this.ended.add(e.turn);
    this.put(this.agentNode(e.text, e.is_error, e.time));
    if (e.turn && (e.key || e.is_error)) this.put(el("div", { class: "after" }, this.whyButton(e.turn), e.key && this.forkButton(e.key), this.undoButton(e.turn)));
  }

  // undoButton is for the last answer before which a tool was used.
  undoButton(turn) {
    if (this.anchor || !this.worked.has(turn) || !this.hooks.writes()) return null;
    this.root.querySelector(".undo")?.remove();
    return el("button", { type: "button", class: "link undo", "aria-label": t("chat.undoLabel"), onclick: () => this.hooks.undo() }, t("chat.undo"));
  }

  // whyButton opens the trace of the turn that has just been answered.
  whyButton(turn) {
    return el("button", { type: "button", class: "link why", "data-turn": turn, "aria-label": "Why this answer?", onclick: () => this.hooks.why(turn) }, "why");
  }

  agentNode(text, failed, time) {
    const node = el("div", { class: failed ? "message agent failed" : "message agent", title: time ? clock(time) : null });
    if (failed) node.append(el("p", {}, text));
    else node.append(markdown(text ?? ""));
    return node;
  }

  pastCall(e) {
    const c = e.call;
    this.worked.add(e.turn);
    const card = this.card(c.id, c.tool, c.args);
    if (c.verdict) card.verdict(c.verdict, c.where, c.reasons);
    if (c.done) card.finish(e.text ?? "", e.is_error);
    else if (c.approval) card.waiting();
    if (this.folds.has(c.id)) card.node.open = this.folds.get(c.id);
  }

  card(id, tool, args) {
    const card = new CallCard(id, tool, args);
    this.calls.set(id, card);
    this.put(card.node);
    return card;
  }

  event(e) {
    const card = this.calls.get(e.call);
    switch (e.kind) {
      case "said":
        this.user(e.key, e.text ?? "", "sent", undefined, undefined, e.files);
        break;
      case "turn_started":
        this.take(e.answers ?? []);
        if (!this.ended.has(e.turn)) this.hooks.running(true);
        break;
      case "text_delta":
        if (!this.ended.has(e.turn)) this.delta(e.turn, e.text);
        break;
      case "text_reset":
        this.closeStream(e.turn, true);
        break;
      case "tool_call":
        this.closeStream(e.turn, card !== undefined);
        this.worked.add(e.turn);
        if (!card) this.card(e.call, e.tool, e.args);
        break;
      case "tool_verdict":
        card?.verdict(e.verdict, e.where, e.reasons);
        break;
      case "tool_approval":
        if (!card?.settled) card?.waiting();
        break;
      case "tool_progress":
        if (!card?.settled) card?.progress(e.text ?? "");
        break;
      case "tool_result":
        card?.finish(e.text ?? "", e.is_error);
        break;
      case "reply":
        this.closeStream(e.turn, true);
        if (!this.replies.has(e.key)) {
          this.agent({ text: e.text, key: e.key, turn: e.turn });
          this.hooks.reply(e.text ?? "");
        }
        break;
      case "turn_failed":
        this.closeStream(e.turn, false);
        if (!this.ended.has(e.turn)) {
          this.agent({ text: e.text, is_error: true, turn: e.turn, key: e.key });
          this.hooks.reply("Failed: " + e.text);
        }
        break;
      case "turn_done":
        this.closeStream(e.turn, false);
        this.abandon();
        this.answered();
        this.hooks.running(false);
        // A turn without an end was abandoned: the history has the state of its messages.
        // One that has grown for long begins with its latest part again.
        if (!this.ended.has(e.turn) || this.root.childElementCount > longest && this.hooks.following()) this.hooks.again();
        break;
    }
    this.hooks.changed();
  }

  abandon() { for (const card of this.calls.values()) card.abandon(); }

  delta(turn, text) {
    let s = this.streams.get(turn);
    if (!s) {
      s = { text: "", node: el("div", { class: "message agent streaming" }) };
      this.streams.set(turn, s);
      this.put(s.node);
    }
    s.text += text ?? "";
    // More than once a frame is not visible, and a long text leaves time for the person.
    s.timer ||= setTimeout(() => {
      s.timer = 0;
      const began = performance.now();
      s.node.replaceChildren(markdown(s.text));
      s.pause = Math.max(frame, 8 * (performance.now() - began));
    }, s.pause ?? frame);
  }

  // closeStream ends the streamed text of a turn; superseded text is removed, because the committed text replaces it.
  closeStream(turn, superseded) {
    const s = this.streams.get(turn);
    if (!s) return;
    this.streams.delete(turn);
    clearTimeout(s.timer);
    if (superseded) {
      s.node.remove();
      return;
    }
    s.node.classList.remove("streaming");
    s.node.replaceChildren(markdown(s.text));
  }
}

function fileList(files) {
  return files?.length ? el("ul", { class: "files" }, files.map((name) => el("li", {}, revealed(name)))) : null;
}
