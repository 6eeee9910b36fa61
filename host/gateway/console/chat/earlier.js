// Messages before those that the history begins with, page by page.

import { byId } from "../lib/dom.js";
import { at, get } from "../lib/api.js";

export const atOnce = 100; // entries

export class Earlier {
  // show(entries) shows entries before all that is shown.
  constructor(scroll, show, trouble) {
    Object.assign(this, { scroll, show, trouble, cursor: "", known: [] });
    byId("show-earlier").addEventListener("click", () => this.more());
  }

  // from begins anew before the history of a conversation, "channel:id": with known entries that are not shown, and what is behind the
  // cursor, which is empty if there is nothing before them.
  from(conversation, cursor, known = []) {
    Object.assign(this, { conversation, cursor, known });
    byId("earlier").hidden = !cursor && !known.length;
  }

  // find shows more until a turn is among it, and returns its node; null if there is none.
  async find(turn) {
    const look = () => document.querySelector(`#transcript [data-turn="${CSS.escape(turn)}"]`);
    while (!look() && await this.more());
    return look();
  }

  // more shows another page. It returns false if there is none.
  async more() {
    const { conversation, cursor, known } = this;
    if (!cursor && !known.length) return false;
    let page = { items: known.slice(-atOnce), next: cursor };
    if (!known.length) {
      const colon = conversation.indexOf(":");
      page = null;
      byId("show-earlier").disabled = true;
      try {
        page = await get(at`/conversations/${conversation.slice(0, colon)}/${conversation.slice(colon + 1)}/entries?limit=${atOnce}&cursor=${cursor}`);
      } catch (error) {
        this.trouble(error.message);
      }
      byId("show-earlier").disabled = false;
    }
    if (!page || this.cursor !== cursor || this.conversation !== conversation) return false;
    const below = this.scroll.scrollHeight - this.scroll.scrollTop;
    this.show(page.items);
    this.from(conversation, page.next ?? "", known.slice(0, -atOnce));
    this.scroll.scrollTop = this.scroll.scrollHeight - below; // what was in view stays there
    return true;
  }
}
