// Undoing what the last answers changed in files: a dialog that lists what would change, and then what has changed.

import { at, get, send } from "../lib/api.js";
import { byId, el, revealed } from "../lib/dom.js";
import { t } from "../lib/text.js";

export class Undo {
  // here() is [channel, id] of the conversation that is shown.
  constructor(here) {
    this.here = here;
    byId("leave-files").addEventListener("click", () => byId("undo").close());
    byId("confirm-undo").addEventListener("click", () => this.undo());
    byId("undo").addEventListener("click", (e) => { if (e.target === byId("undo")) byId("undo").close(); });
  }

  // ask shows what would be undone now.
  async ask() {
    const path = this.path = at`/conversations/${this.here()[0]}/${this.here()[1]}/undo`;
    this.show({}, t("chat.undoLooking"));
    byId("undo").showModal();
    byId("leave-files").focus(); // so that Enter undoes nothing
    try {
      const plan = await get(path);
      if (this.path === path) this.show(plan, plan.why ? t("chat.undoNothing", { why: plan.why }) : t(plan.turn ? "chat.undoWhat" : "chat.undoAgain"));
    } catch (error) {
      if (this.path === path) this.show({}, error.message);
    }
  }

  // undo does what was shown. Where that is not what would be done any more, it is shown anew.
  async undo() {
    const path = this.path;
    byId("confirm-undo").disabled = true;
    try {
      const done = await send("POST", path, { code: this.code, overwrite: byId("undo-overwrite").checked }, { key: crypto.randomUUID() });
      if (this.path === path) this.show({ ...done, code: "", overwrote: byId("undo-overwrite").checked }, t("chat.undone"));
    } catch (error) {
      if (this.path === path) this.show({}, t("chat.notUndone", { why: error.message }));
    }
    byId("confirm-undo").disabled = false;
    byId("leave-files").focus();
  }

  show(plan, text) {
    this.code = plan.code;
    byId("undo-what").replaceChildren(...revealed(text));
    byId("undo-files").replaceChildren(
      ...files(t("chat.undoRestored"), plan.restored, plan.count?.restored), ...files(t("chat.undoRemoved"), plan.removed, plan.count?.removed),
      ...files(t(plan.overwrote ? "chat.undoOverwrote" : "chat.undoChanged"), plan.changed, plan.count?.changed), ...files(t("chat.undoLeft"), plan.left),
      plan.code ? el("p", {}, plan.final ? t("chat.undoFinal", { why: plan.final }) : t("chat.undoEnds")) : "",
    );
    byId("undo-overwriting").hidden = !plan.code || !plan.changed.length;
    byId("undo-overwrite").checked = false;
    byId("confirm-undo").hidden = !plan.code;
    byId("leave-files").textContent = t(plan.code ? "chat.leaveFiles" : "chat.close");
  }
}

function files(title, names, count = names?.length) {
  if (!names?.length) return [];
  return [el("h3", {}, `${title} (${count})`), el("ul", {}, names.map((name) => el("li", {}, revealed(name))), count > names.length && el("li", {}, "…"))];
}
