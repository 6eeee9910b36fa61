// The field in which a message is written. What is typed and not sent is kept for each conversation of the window.

import { byId } from "../lib/dom.js";

const draft = byId("draft");

export class Composer {
  // key() is the conversation that is shown, "channel:id", or empty; send(text) is called when the person sends.
  constructor(key, send) {
    this.key = key;
    byId("composer").addEventListener("submit", (e) => {
      e.preventDefault();
      send(draft.value);
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
    draft.addEventListener("input", () => { this.keep(); grow(); });
  }

  get text() { return draft.value; }

  set text(value) {
    draft.value = value;
    this.keep();
    grow();
  }

  keep() {
    if (!this.key()) return;
    if (draft.value) sessionStorage.setItem("flynn.draft." + this.key(), draft.value);
    else sessionStorage.removeItem("flynn.draft." + this.key());
  }

  // load shows what was typed in the conversation that is shown.
  load() {
    draft.value = sessionStorage.getItem("flynn.draft." + this.key()) ?? "";
    grow();
  }
}

// grow fits the field to its text, within what the style allows.
function grow() {
  draft.style.height = "auto";
  draft.style.height = draft.scrollHeight + draft.offsetHeight - draft.clientHeight + "px"; // with its border
}
