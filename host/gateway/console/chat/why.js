// The trace of one turn from the JSON API: what happened to a message and who decided what, worded as in flynn explain.

import { byId, el, revealed } from "../lib/dom.js";

export class Why {
  // get(path) fetches from the JSON API.
  constructor(get) {
    this.get = get;
    byId("close-why").addEventListener("click", () => byId("why").close());
    byId("why").addEventListener("click", (e) => { if (e.target === byId("why")) byId("why").close(); });
  }

  async show(turn) {
    this.turn = turn;
    byId("why-body").replaceChildren(el("p", { class: "small" }, "Reading the trace"));
    if (!byId("why").open) byId("why").showModal();
    let nodes;
    try {
      nodes = trace(await this.get("/api/v1/turns/" + encodeURIComponent(turn)), (id) => this.show(id));
    } catch {
      nodes = [el("p", { class: "small" }, "The trace is not available: run flynn explain " + turn)];
    }
    if (this.turn === turn) byId("why-body").replaceChildren(...nodes); // another one may have been asked for
  }
}

function trace(t, open) {
  const others = [t.parent, ...t.steps.flatMap((s) => (s.calls ?? []).map((c) => c.child))].filter(Boolean);
  return [
    ...t.title.map((line, i) => el("p", { class: i ? "small" : "lead" }, revealed(line))),
    el("ol", { class: "trace" }, t.lines.map((l) => el("li", { "data-depth": Math.min(l.depth, 4) },
      el("span", { class: "at" }, l.at ?? ""), el("span", { class: "what" }, revealed(l.text))))),
    ...others.map((id) => el("p", {}, el("button", { type: "button", class: "link", onclick: () => open(id) }, id === t.parent ? "parent turn" : "delegated turn"))),
  ];
}
