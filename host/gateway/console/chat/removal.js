// Deleting a conversation: a dialog that lists what is deleted and what is kept, and then the deletion.

import { at, get } from "../lib/api.js";
import { byId, revealed } from "../lib/dom.js";

const patience = 30000; // milliseconds; what runs is stopped first

export class Removal {
  // hooks: chosen() is the conversation that is shown, as the list has it; done(conversation) is called when it is deleted.
  constructor(token, hooks) {
    Object.assign(this, { token, hooks });
    byId("delete").addEventListener("click", () => this.ask());
    byId("keep").addEventListener("click", () => byId("removal").close());
    byId("confirm-delete").addEventListener("click", () => this.remove());
    byId("removal").addEventListener("click", (e) => { if (e.target === byId("removal")) byId("removal").close(); });
  }

  async ask() {
    const c = this.asked = this.hooks.chosen();
    if (!c) return;
    this.say(c);
    this.trouble("");
    byId("removal").showModal();
    byId("keep").focus(); // so that Enter deletes nothing
    try {
      const now = await get(at`/conversations/${c.channel}/${c.id}`); // the list may be a moment old
      if (this.asked === c) this.say(now);
    } catch (error) {
      this.trouble(error.message);
    }
  }

  say(c) {
    byId("removal-name").replaceChildren(...revealed(c.title || c.id));
    byId("removal-what").textContent = question(c);
  }

  async remove() {
    const c = this.asked;
    byId("confirm-delete").disabled = true;
    try {
      const path = `/api/v1/conversations/${encodeURIComponent(c.channel)}/${encodeURIComponent(c.id)}?stop=true`;
      const answer = await fetch(path, {
        method: "DELETE", headers: { Authorization: "Bearer " + this.token }, signal: AbortSignal.timeout(patience),
      });
      if (!answer.ok) throw new Error((await answer.json()).detail);
      byId("removal").close();
      this.hooks.done(c);
    } catch (error) {
      this.trouble("Not deleted: " + error.message);
    }
    byId("confirm-delete").disabled = false;
  }

  trouble(text) {
    byId("removal-trouble").hidden = !text;
    byId("removal-trouble").replaceChildren(...revealed(text));
  }
}

function question(c) {
  const answers = c.turns === 1 ? "1 answer" : (c.turns ?? 0) + " answers";
  return `This deletes this conversation (${answers}) for good, with the agents' notes about it, and the sandbox with its content. ` +
    "Files in the workspace stay, and so do the logs of decisions, approvals and costs." +
    (c.running ? " The running answer is stopped." : "");
}
