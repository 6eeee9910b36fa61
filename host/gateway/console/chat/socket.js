// The connection to the gateway: protocol flynn.v1 over a WebSocket, kept up until it is closed. What was sent and not
// yet accepted is kept in sessionStorage and sent again with the same id, so it is answered once.

const silence = 45000; // milliseconds without a frame after which the connection is taken for dead
const firstWait = 300;
const longestWait = 5000;
const storageKey = "flynn.unsent";

export class Socket {
  // handlers: frame(frame) and state(name, detail); names are connecting, connected, waiting, refused.
  constructor(token, channel, conversation, handlers) {
    Object.assign(this, { token, channel, conversation, handlers });
    this.wait = firstWait;
    this.open();
    this.wake = () => { if (this.timer && document.visibilityState === "visible") this.open(); };
    addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.wake);
  }

  open() {
    clearTimeout(this.timer);
    this.timer = null;
    this.greeted = false;
    this.handlers.state("connecting");
    const scheme = location.protocol === "https:" ? "wss://" : "ws://";
    const ws = new WebSocket(scheme + location.host + "/api/v1/socket", "flynn.v1");
    this.ws = ws;
    ws.onopen = () => {
      this.alive();
      this.put({ type: "hello", token: this.token, channel: this.channel, conversation: this.conversation });
    };
    ws.onmessage = (e) => { if (ws === this.ws) this.receive(JSON.parse(e.data)); };
    ws.onclose = () => { if (ws === this.ws) this.lost(); };
  }

  receive(frame) {
    this.alive();
    if (frame.type === "welcome") {
      this.greeted = true;
      this.wait = firstWait;
      this.handlers.state("connected");
    }
    if (frame.type === "error" && frame.code === "unauthorized") {
      this.close();
      this.handlers.state("refused", frame.message);
      return;
    }
    if (frame.type === "error" && frame.code === "forbidden" && !this.greeted) {
      this.close();
      this.handlers.state("denied");
    }
    if (frame.type === "accepted" || (frame.type === "error" && frame.id)) this.forget(frame.id);
    // Only the history shows what arrived before the connection was lost.
    if (frame.type === "history") for (const entry of frame.entries) if (entry.from === "user") this.forget(entry.key);
    this.handlers.frame(frame);
    if (frame.type === "history") for (const m of this.unsent()) this.put(frameOf(m));
  }

  lost() {
    clearTimeout(this.watchdog);
    this.handlers.state("waiting");
    this.timer = setTimeout(() => this.open(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(this.wait * 2, longestWait);
  }

  alive() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.ws.close(), silence);
  }

  put(frame) {
    if (this.ws.readyState === WebSocket.OPEN) this.ws.send(JSON.stringify(frame));
  }

  // send keeps the text until it is accepted.
  send(id, text, files = []) {
    const m = { id, text, files, conversation: this.key() };
    this.keep([...this.all(), m]);
    if (this.greeted) this.put(frameOf(m));
  }

  history() { this.put({ type: "history" }); }

  stop() { this.put({ type: "stop" }); }

  decide(approval, grant, scope) { this.put({ type: "decide", approval, grant, ...(scope && { scope }) }); }

  key() { return this.channel + ":" + this.conversation; }

  all() {
    try {
      return JSON.parse(sessionStorage.getItem(storageKey)) ?? [];
    } catch {
      return [];
    }
  }

  unsent() { return this.all().filter((m) => m.conversation === this.key()); }

  keep(list) { sessionStorage.setItem(storageKey, JSON.stringify(list)); }

  forget(id) { this.keep(this.all().filter((m) => m.id !== id)); }

  // drop discards what was never accepted.
  drop() { this.keep(this.all().filter((m) => m.conversation !== this.key())); }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.wake);
    const ws = this.ws;
    this.ws = { readyState: WebSocket.CLOSED, close() {} };
    ws.close();
  }
}

// frameOf is the frame of a message. A file is named by its handle.
function frameOf({ id, text, files = [] }) {
  return { type: "send", id, text, ...(files.length && { files: files.map((f) => f.handle) }) };
}
