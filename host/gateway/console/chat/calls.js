// Tool calls: what was asked, what enforcement decided, what came out.

import { el, oneLine, place, plain, revealed } from "../lib/dom.js";

const shownLines = 14; // longer output starts folded
const shownOutput = 20000; // characters, from the end, while more of them come

// argumentRows returns a label and a full value for every argument. Strings are shown as they are, not as JSON, but
// with every invisible character shown by its code.
export function argumentRows(args) {
  if (args === null || typeof args !== "object" || Array.isArray(args)) {
    return args === undefined ? [] : [row("arguments", JSON.stringify(args, null, 2))];
  }
  const names = Object.keys(args);
  const main = ["command", "script", "code"];
  names.sort((a, b) => main.includes(b) - main.includes(a));
  return names.map((name) => {
    const value = args[name];
    return row(name, typeof value === "string" ? value : JSON.stringify(value, null, 2));
  });
}

function row(name, value) {
  return el("div", { class: "arg" },
    el("span", { class: "label" }, revealed(name)),
    el("pre", { tabindex: "0" }, revealed(value)));
}

// gist is one line that distinguishes calls of the same tool.
function gist(args) {
  if (args === null || typeof args !== "object") return args === undefined ? "" : String(args);
  for (const name of ["command", "script", "path", "url", "query", "task"]) {
    if (typeof args[name] === "string") return args[name];
  }
  const first = Object.values(args).find((v) => typeof v === "string");
  return first ?? (Object.keys(args).length ? JSON.stringify(args) : "");
}

function verdictWords(verdict, where) {
  switch (verdict) {
    case "run": return ["host", where && where !== "host" ? where : "on the host"];
    case "run_in_sandbox": return ["sandbox", place(where || "sandbox")];
    case "ask": return ["ask", "asks first, " + place(where)];
    case "deny": return ["deny", "denied"];
  }
  return ["", ""];
}

// CallCard is a tool call in the transcript.
export class CallCard {
  constructor(id, tool, args) {
    this.id = id;
    this.output = "";
    this.state = "running";
    this.chip = el("span", { class: "verdict" });
    this.mark = el("span", { class: "mark" });
    this.reasons = el("ul", { class: "reasons", hidden: true });
    this.pre = el("pre", { tabindex: "0", "aria-label": "Output" });
    this.outputBox = el("div", { class: "output", hidden: true }, el("span", { class: "label" }, "output"), this.pre);
    this.node = el("details", { class: "call", "data-call": id, ontoggle: () => { this.toggled ||= this.settled; } },
      el("summary", {}, this.mark, el("span", { class: "tool" }, tool),
        el("code", { class: "gist" }, revealed(oneLine(gist(args), 300))), this.chip),
      el("div", { class: "body" }, argumentRows(args), this.reasons, this.outputBox));
    this.setState("running");
  }

  setState(state) {
    this.state = state;
    const [sign, words] = {
      running: ["", "running"], waiting: ["?", "waiting for your approval"], done: ["✓", "done"],
      failed: ["!", "failed"], stopped: ["–", "stopped"],
    }[state];
    this.mark.className = "mark " + state;
    this.mark.textContent = sign;
    this.mark.setAttribute("role", "img");
    this.mark.setAttribute("aria-label", words);
    this.mark.title = words;
  }

  verdict(verdict, where, reasons) {
    const [kind, words] = verdictWords(verdict, where);
    this.chip.className = "verdict " + kind;
    this.chip.replaceChildren(...revealed(words));
    this.reasons.hidden = !reasons?.length;
    this.reasons.replaceChildren(...(reasons ?? []).map((r) => el("li", {}, revealed(r))));
    this.denied = verdict === "deny";
    if (this.denied) this.node.open = true;
  }

  waiting() { this.setState("waiting"); }

  progress(text) {
    if (this.state === "waiting") this.setState("running");
    this.output += text;
    this.frame ||= requestAnimationFrame(() => this.show());
  }

  finish(text, failed) {
    this.output = text;
    this.settled = true;
    this.setState(failed ? "failed" : "done");
    this.show();
    const lines = this.output.split("\n").length;
    if (!this.toggled) this.node.open = failed || lines <= shownLines;
  }

  // abandon marks a call whose turn ended without a result.
  abandon() {
    if (this.state === "running" || this.state === "waiting") this.setState("stopped");
  }

  show() {
    this.frame = 0;
    const text = plain(this.settled ? this.output : this.output.slice(-shownOutput));
    // The result of a denied call repeats the reasons.
    this.outputBox.hidden = text === "" || this.denied === true;
    this.pre.textContent = text;
  }
}
