// One of the siblings: it reads everything that the SDK can read and answers with a hash of it.
import {
  Facts, List, Restriction, RouteAnswer, RouteFacts, ToolFacts, Utf8, abstain, agent, data, drop, glob, none, route, tool, trace, unrestricted,
} from "@flynnhost/policy";
export { flynn_abi, flynn_buffer } from "@flynnhost/policy";

export function flynn_route(size: u32): i64 {
  return route(size, decide);
}

export function flynn_tool(size: u32): i64 {
  return tool(size, restrict);
}

/** FNV-1a, 32 bits. */
class Hash {
  value: u32 = 2166136261;

  byte(b: u32): void {
    this.value = (this.value ^ (b & 0xff)) * 16777619;
  }

  text(t: Utf8): void {
    for (let i = 0; i < t.length; i++) this.byte(t.byte(i));
    this.byte(0xff);
  }

  integer(v: i64): void {
    for (let i = 0; i < 8; i++) {
      this.byte(<u32>v);
      v >>= 8;
    }
  }

  flag(is: bool): void {
    this.byte(is ? 1 : 0);
  }

  list(l: List): void {
    for (let item = l.next(); item !== null; item = l.next()) this.text(item);
    this.byte(0xfe);
  }

  lazy(t: Utf8 | null): void {
    this.flag(t !== null);
    this.text(t !== null ? t : none);
  }

  /** The 24 bits that an answer has for it. */
  get rule(): u32 {
    return (this.value ^ (this.value >> 24)) & 0xffffff;
  }
}

function common(f: Facts): Hash {
  const h = new Hash();
  for (let field: u32 = 0; field <= 70; field++) h.flag(f.has(field));
  const texts = [f.channel, f.conversation, f.conversationKind, f.parent, f.sender, f.senderName, f.account, f.role, f.text, f.door, f.zone];
  for (let i = 0; i < texts.length; i++) h.text(texts[i]);
  const integers = [f.textLength, f.attachments, f.unixTime, f.minuteOfDay, f.weekday, f.seed, f.sessionTokens, f.sessionCost, f.sessionAge,
    f.turns];
  for (let i = 0; i < integers.length; i++) h.integer(integers[i]);
  h.flag(f.addressed);
  h.flag(f.edited);
  h.flag(f.mentioned);
  h.list(f.labels);
  h.list(f.attachmentTypes);
  h.list(f.senderRoles);
  h.text(f.fullText);
  h.lazy(data("key"));
  h.lazy(data("absent"));
  return h;
}

function decide(f: RouteFacts): RouteAnswer {
  const h = common(f);
  h.text(f.candidate);
  h.list(f.agents);
  trace(h.rule, f.addressed);
  if (f.text.is("agent")) {
    if (f.candidate.empty) return abstain(h.rule).because(f.senderName);
    return agent(f.candidate, h.rule).because(f.senderName);
  }
  if (f.text.is("last")) {
    let last = none;
    const agents = f.agents;
    for (let a = agents.next(); a !== null; a = agents.next()) last = a;
    return last.empty ? abstain(h.rule) : agent(last, h.rule);
  }
  if (f.text.is("drop")) return drop(h.rule).because(f.text);
  if (f.text.is("glob") && glob("irc:b*", f.sender)) return drop(h.rule);
  return abstain(h.rule).because(f.fullText);
}

function restrict(f: ToolFacts): Restriction {
  const h = common(f);
  h.text(f.agent);
  h.text(f.tool);
  h.text(f.effect);
  h.text(f.session);
  h.text(f.argsDigest);
  h.integer(f.callsInTurn);
  h.flag(f.sandboxed);
  const pointers = ["", "/command", "/list/0", "/list/1", "/a~1b", "/none", "bad"];
  for (let i = 0; i < pointers.length; i++) {
    h.integer(<i64>f.argKind(pointers[i]));
    h.lazy(f.arg(pointers[i]));
  }
  const bits = f.callsInTurn;
  const r = unrestricted(h.rule).because(f.text);
  r.deny = (bits & 1) != 0;
  r.ask = (bits & 2) != 0;
  r.sandbox = (bits & 4) != 0;
  if (r.sandbox) {
    const label = f.labels.next();
    if (label !== null) r.sandboxName = label;
  }
  return r;
}
