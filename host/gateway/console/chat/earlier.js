// Messages before those that the history begins with, page by page.

import { byId } from "../lib/dom.js";
import { at, get } from "../lib/api.js";

export class Earlier {
  // show(entries) shows entries before all that is shown.
  constructor(scroll, show, trouble) {
    Object.assign(this, { scroll, show, trouble, cursor: "" });
    byId("show-earlier").addEventListener("click", () => this.more());
  }

  // from begins anew before the history of a conversation, "channel:id". An empty cursor says that there is nothing before it.
  from(conversation, cursor) {
    Object.assign(this, { conversation, cursor });
    byId("earlier").hidden = !cursor;
  }

  // find shows more until a turn is among it, and returns its node; null if there is none.
  async find(turn) {
    const look = () => document.querySelector(`#transcript [data-turn="${CSS.escape(turn)}"]`);
    while (!look() && await this.more());
    return look();
  }

  // more shows another page. It returns false if there is none.
  async more() {
    const { conversation, cursor } = this;
    if (!cursor) return false;
    const colon = conversation.indexOf(":");
    let page;
    byId("show-earlier").disabled = true;
    try {
      page = await get(at`/conversations/${conversation.slice(0, colon)}/${conversation.slice(colon + 1)}/entries?limit=200&cursor=${cursor}`);
    } catch (error) {
      this.trouble(error.message);
    }
    byId("show-earlier").disabled = false;
    if (!page || this.cursor !== cursor || this.conversation !== conversation) return false;
    const below = this.scroll.scrollHeight - this.scroll.scrollTop;
    this.show(page.items);
    this.from(conversation, page.next ?? "");
    this.scroll.scrollTop = this.scroll.scrollHeight - below; // what was in view stays there
    return true;
  }
}
