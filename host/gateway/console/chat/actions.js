// What can be done with a conversation as a whole: a name, a file of it, its address, and a conversation that branches off from it.

import { byId } from "../lib/dom.js";
import { at, get, send } from "../lib/api.js";
import { t } from "../lib/text.js";

export class Actions {
  // hooks: here() is [channel, id]; chosen() is the conversation as the list has it; open(channel, id, why); changed(); trouble(text); say(text).
  constructor(hooks) {
    this.hooks = hooks;
    byId("share").addEventListener("click", () => this.share());
    byId("rename").addEventListener("click", () => this.rename());
    for (const format of ["markdown", "jsonl"]) byId("export-" + format).addEventListener("click", () => this.export(format));
    byId("show-previews").addEventListener("click", () => this.previews());
    byId("naming").addEventListener("submit", () => this.named());
    byId("cancel-name").addEventListener("click", () => byId("name-dialog").close());
    const menu = byId("actions");
    const close = () => {
      menu.open = false;
      menu.querySelector("summary").focus();
    };
    // Before the button does anything: a dialog gives the focus back to what had it, which must not be in a closed menu.
    menu.addEventListener("click", (e) => { if (e.target.closest("button")) close(); }, true);
    menu.addEventListener("keydown", (e) => {
      if (e.key !== "Escape" || !menu.open) return;
      e.stopPropagation();
      close();
    });
    addEventListener("pointerdown", (e) => { if (!menu.contains(e.target)) menu.open = false; });
  }

  // try does something, and says why if it fails.
  async try(act) {
    try {
      await act();
    } catch (error) {
      this.hooks.trouble(error.message);
    }
  }

  share() {
    return this.try(async () => {
      await navigator.clipboard.writeText(location.href);
      this.hooks.say(t("chat.copied"));
    });
  }

  // previews goes to the ports of the conversation's sandbox. Only conversations of this page have the name of their scope.
  previews() {
    const [channel, id] = this.hooks.here();
    location.hash = "previews" + (["web", "terminal", "console"].includes(channel) ? "/" + encodeURIComponent(channel + ":" + id) : "");
  }

  rename() {
    byId("new-name").value = this.hooks.chosen()?.title ?? "";
    byId("name-dialog").showModal();
    byId("new-name").select();
  }

  named() {
    const title = byId("new-name").value.trim();
    if (!title) return;
    this.try(async () => {
      await send("PATCH", at`/conversations/${this.hooks.here()[0]}/${this.hooks.here()[1]}`, { title }, { key: crypto.randomUUID() });
      this.hooks.changed();
    });
  }

  export(format) {
    return this.try(async () => {
      const [channel, id] = this.hooks.here();
      const file = await get(at`/conversations/${channel}/${id}/export` + "?format=" + format);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(file);
      link.download = (this.hooks.chosen()?.title || id).replace(/[^\p{L}\p{N} ._-]/gu, "_").slice(0, 60) + (format === "jsonl" ? ".jsonl" : ".md");
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    });
  }

  // fork opens a new conversation with what was said up to an entry, or before it.
  fork(entry, before = false) {
    return this.try(async () => {
      const [channel, id] = this.hooks.here();
      const to = await send("POST", at`/conversations/${channel}/${id}/forks`, { entry, before }, { key: crypto.randomUUID() });
      const { why, then } = to.files;
      this.hooks.open(to.channel, to.id, t("chat.forked") + " " + (why ? t("chat.filesStay", { why }) : t(then ? "chat.filesThen" : "chat.filesNow")));
    });
  }
}
