// The list of conversations and the status of the host, from the JSON API.

import { at, get } from "../lib/api.js";
import { byId, el, clock } from "../lib/dom.js";
import { paced } from "../lib/live.js";
import { may, me, writes } from "../lib/me.js";
import { html, render } from "../lib/ui.js";

export class Panel {
  // open(channel, id) is called when a conversation is chosen, gone() when the one that is shown has left the list.
  constructor(token, open, gone) {
    Object.assign(this, { token, open, gone, people: [], programs: [], beside: [], wanted: 100 });
    this.refresh = paced(() => this.load());
    byId("more-conversations").addEventListener("click", () => { this.wanted += 200; this.refresh(); });
    byId("open-status").addEventListener("click", () => { this.refresh(); byId("status").showModal(); });
    byId("close-status").addEventListener("click", () => byId("status").close());
    byId("halt").addEventListener("click", () => this.halt());
    byId("status").addEventListener("click", (e) => { if (e.target === byId("status")) byId("status").close(); });
  }

  async get(path) {
    const answer = await fetch(path, {
      headers: { Authorization: "Bearer " + this.token }, signal: AbortSignal.timeout(10000), cache: "no-store",
    });
    if (!answer.ok) throw new Error(path + " answered " + answer.status);
    return answer.json();
  }

  // halt halts everything, or resumes.
  async halt() {
    const on = !this.halted;
    byId("halt").disabled = true;
    try {
      const answer = await fetch("/api/v1/halt", {
        method: on ? "PUT" : "DELETE", headers: { Authorization: "Bearer " + this.token, "Content-Type": "application/json" },
        body: on ? "{}" : undefined, signal: AbortSignal.timeout(10000),
      });
      if (!answer.ok) throw new Error("halt answered " + answer.status);
    } catch {
      byId("urgent").textContent = "The kill switch could not be reached. Run flynn halt in a terminal.";
    }
    byId("halt").disabled = false;
    this.refresh();
  }

  // load shows what the host says now; refresh calls it.
  async load() {
    try {
      const [people, programs, status] = await Promise.all([
        this.pages("people", this.wanted), this.pages("programs", 50), may("owner") ? this.get("/api/v1/status") : null]);
      byId("more-conversations").hidden = !people.next;
      const shown = this.chosen();
      this.programs = programs.items;
      this.people = may("owner") ? people.items : people.items.filter((c) => writes(c.channel, c.id));
      await this.look(people.next);
      this.known = true;
      this.list();
      if (shown && !this.chosen()) this.gone();
      if (status) this.status(status);
    } catch {
      this.health("bad", "Not reachable");
    }
  }

  // look asks for the conversation that is shown when the list may end before it.
  async look(more) {
    this.beside = [];
    if (!more || !this.current || this.chosen()) return;
    const [channel, id] = [this.current.slice(0, this.current.indexOf(":")), this.current.slice(this.current.indexOf(":") + 1)];
    try {
      this.beside = [await get(at`/conversations/${channel}/${id}`)];
    } catch (error) {
      if (error.status !== 404) throw error;
    }
  }

  // pages reads conversations, page after page, until there are as many as wanted.
  async pages(from, wanted) {
    const items = [];
    let next = "";
    do {
      const page = await this.get(`/api/v1/conversations?from=${from}&limit=${Math.min(500, wanted - items.length)}&cursor=${encodeURIComponent(next)}`);
      items.push(...page.items);
      next = page.next ?? "";
    } while (next && items.length < wanted);
    return { items, next };
  }

  // list shows the conversations of people, and those of programs and schedules apart.
  list() {
    this.fill(byId("conversations"), this.people);
    this.fill(byId("programs"), this.programs);
    byId("of-programs").hidden = !this.programs.length;
    if (this.programs.some((c) => c.channel + ":" + c.id === this.current)) byId("of-programs").open = true;
    this.title();
  }

  fill(list, conversations) {
    const key = (c) => c.channel + ":" + c.id;
    render(conversations.map((c) => html`<li key=${key(c)}><button type="button" data-key=${key(c)} title=${c.title || c.id}
      aria-current=${key(c) === this.current ? "true" : undefined} onClick=${() => this.open(c.channel, c.id)}>
      <span class="name">${c.title || c.id}</span>
      <span class="sub">${[c.channel === me.channel ? null : c.channel, c.running ? "working" : clock(c.last)].filter(Boolean).join(" · ")}</span></button></li>`), list);
  }

  select(key) {
    this.current = key;
    if (this.known) this.list();
    else this.title();
  }

  // chosen is the conversation that is shown; undefined before its first message.
  chosen() { return [...this.people, ...this.programs, ...this.beside].find((x) => x.channel + ":" + x.id === this.current); }

  title() {
    const c = this.chosen();
    byId("delete").hidden = !c;
    byId("actions").hidden = !c;
    byId("title").textContent = c ? c.title || c.id : "New conversation";
    document.title = c ? (c.title || c.id) + " · Flynn" : "Flynn";
  }

  // login shows the code with which the operator signs an instance in.
  async login(name, item) {
    try {
      const { rows } = await this.get("/api/v1/plugins/" + encodeURIComponent(name) + "/login");
      if (rows.length) item.append(qr(rows, "Scan this with your device to sign " + name + " in"));
    } catch {
      item.append(el("span", { class: "sub" }, "The code to scan cannot be shown: run flynn plugin login " + name));
    }
  }

  health(kind, words) {
    byId("health").className = "dot " + kind;
    byId("health-text").textContent = words;
  }

  status(s) {
    const elevated = (s.elevated ?? []).map((e) =>
      `Elevated mode (${e.state}) in ${e.conversation} until ${clock(e.until)}: tools may leave the sandbox when ${e.sender} asks.`);
    byId("elevated").hidden = !elevated.length;
    byId("elevated").replaceChildren(...elevated.map((w) => el("p", {}, w)));
    const warnings = [...elevated, ...(s.warnings ?? [])];
    this.halted = !!s.halt;
    byId("halt").textContent = s.halt ? "Resume" : "Halt everything";
    byId("halt").classList.toggle("on", !!s.halt);
    byId("halt-what").hidden = !!s.halt;
    const broken = (s.channels ?? []).filter((x) => !x.ok).length; // a broken policy is among the warnings
    if (s.halt) this.health("bad", "Everything is halted");
    else if (warnings.length || broken) this.health("warn", warnings.length + broken === 1 ? "1 warning" : warnings.length + broken + " warnings");
    else this.health("good", "All well");
    const sandbox = !s.sandbox?.enabled ? "off" : s.sandbox.available ? "available" : "not available";
    byId("status-body").replaceChildren(
      ...(s.halt ? [el("p", { class: "warning" }, ["Everything is halted since " + clock(s.halt.since) + " by " + s.halt.by, s.halt.reason].filter(Boolean).join(": "))] : []),
      ...warnings.map((w) => el("p", { class: "warning" }, w)),
      section("Agents", (s.agents ?? []).map((a) => line(a.name, [a.kind, a.model, a.tools && "tools: " + a.tools, a.sandbox ? "sandbox " + a.sandbox : "on the host"]))),
      section("Channels", (s.channels ?? []).map((c) => {
        const item = line(c.name, [c.state, c.plugin, c.detail], c.ok);
        if (c.login) this.login(c.name, item);
        return item;
      })),
      section("Policies", (s.policies ?? []).map((p) => line(p.name, [p.shadow ? "shadow" : "", p.state, (p.kinds ?? []).join(", "), (p.digest ?? "").replaceAll("sha256:", "").slice(0, 12), p.detail], p.ok))),
      section("Sandbox", [line(sandbox, [s.sandbox?.detail], s.sandbox?.enabled ? s.sandbox.available : undefined)]),
      el("p", { class: "small" }, [s.version && "Flynn " + s.version, "configuration " + s.generation, s.started && "since " + clock(s.started)].filter(Boolean).join(" · ")));
  }
}

// qr draws rows of 1 and 0 with a quiet zone of four squares.
function qr(rows, label) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const size = rows.length + 8;
  for (const [key, value] of Object.entries({ class: "qr", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label, width: 240, height: 240 })) {
    svg.setAttribute(key, value);
  }
  const square = (fill, d) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("fill", fill);
    path.setAttribute("d", d);
    svg.append(path);
  };
  square("#fff", `M0 0h${size}v${size}h-${size}z`);
  square("#000", rows.flatMap((row, y) => [...row].map((dark, x) => (dark === "1" ? `M${x + 4} ${y + 4}h1v1h-1z` : ""))).join(""));
  return svg;
}

function section(title, lines) {
  return el("section", {}, el("h3", {}, title), lines.length ? el("ul", {}, lines) : el("p", { class: "small" }, "none"));
}

function line(name, facts, ok) {
  return el("li", {},
    ok === undefined ? null : el("span", { class: ok ? "dot good" : "dot bad", role: "img", "aria-label": ok ? "working" : "not working" }),
    el("span", { class: "name" }, name),
    el("span", { class: "sub" }, facts.filter(Boolean).join(" · ")));
}
