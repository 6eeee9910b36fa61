// The files of the message that is written: chosen, pasted, dropped, photographed or recorded. Each is sent to the host at once and goes
// with the message by the handle that comes back.

import { byId, el, revealed } from "../lib/dom.js";
import { send } from "../lib/api.js";
import { bytes, t } from "../lib/text.js";
import { Recorder } from "./recorder.js";

const most = 10; // files of a message
const largest = 64 << 20; // bytes

export class Files {
  // hooks: channel() is that of the conversation that is shown; trouble(text).
  constructor(hooks) {
    this.hooks = hooks;
    this.list = []; // of {name, size, handle or promise}
    for (const [button, input] of [["attach", "attach-input"], ["camera", "camera-input"]]) {
      byId(button).addEventListener("click", () => byId(input).click());
      byId(input).addEventListener("change", () => {
        this.add(byId(input).files);
        byId(input).value = ""; // so that the same file can be chosen again
      });
    }
    new Recorder(byId("record"), (file) => this.add([file]), hooks.trouble);
    byId("record").hidden = typeof MediaRecorder === "undefined";
    byId("draft").addEventListener("paste", (e) => this.take(e, e.clipboardData));
    const chat = byId("chat");
    chat.addEventListener("dragover", (e) => {
      if (!this.open() || !e.dataTransfer.types.includes("Files")) return;
      e.preventDefault();
      chat.classList.add("dropping");
    });
    chat.addEventListener("dragleave", (e) => { if (!chat.contains(e.relatedTarget)) chat.classList.remove("dropping"); });
    chat.addEventListener("drop", (e) => {
      chat.classList.remove("dropping");
      if (this.open()) this.take(e, e.dataTransfer);
    });
  }

  open() { return !byId("composer").hidden; }

  take(event, data) {
    if (!data?.files.length) return; // text, which the field takes
    event.preventDefault();
    this.add(data.files);
  }

  add(files) {
    for (const file of files) {
      if (this.list.length === most) return this.hooks.trouble(t("chat.manyFiles", { most }));
      if (file.size > largest) {
        this.hooks.trouble(t("chat.largeFile", { name: file.name, most: bytes(largest) }));
        continue;
      }
      const entry = { name: file.name || t("chat.unnamed"), size: file.size };
      this.list.push(entry);
      entry.kept = this.upload(entry, file);
    }
    this.show();
    byId("draft").focus();
  }

  async upload(entry, file) {
    const query = new URLSearchParams({ channel: this.hooks.channel(), name: fileName(entry.name) });
    try {
      entry.handle = (await send("POST", "/files?" + query, new Blob([file], { type: "application/octet-stream" }))).handle;
    } catch (error) {
      this.list = this.list.filter((x) => x !== entry);
      this.hooks.trouble(t("chat.notKept", { name: entry.name, why: error.message }));
    }
    this.show();
  }

  get empty() { return this.list.length === 0; }

  // taken waits until all files are kept, and returns them; the message has them from then on. It returns null if one was not kept.
  async taken() {
    const list = this.list;
    await Promise.all(list.map((f) => f.kept));
    if (list.some((f) => !f.handle)) return null;
    this.clear();
    return list.map(({ name, handle }) => ({ name, handle }));
  }

  clear() {
    this.list = [];
    this.show();
  }

  show() {
    byId("files").hidden = this.empty;
    byId("files").replaceChildren(...this.list.map((f) => el("li", {},
      el("span", { class: "name" }, revealed(f.name)),
      el("span", { class: "small" }, f.handle ? bytes(f.size) : t("chat.uploading")),
      el("button", {
        type: "button", class: "icon", "aria-label": t("chat.drop", { name: f.name }),
        onclick: () => { this.list = this.list.filter((x) => x !== f); this.show(); byId("draft").focus(); },
      }, "✕"))));
  }
}

// fileName is a name that the host takes: without a folder and control characters, and not too long.
function fileName(name) {
  let out = "";
  for (const c of name) {
    if (out.length < 200) out += c < " " || c === "/" || c === "\\" || c === "\u007f" ? "_" : c;
  }
  return out || t("chat.unnamed");
}
