// The table policy; ../README.md says what it does.
import * as abi from "@flynnhost/policy/abi";
import {
  Facts, List, Restriction, RouteAnswer, RouteFacts, ToolFacts, Utf8, abstain, agent, cidr, data, deny, domain, drop, glob, none, re2, route, tool,
  trace, unrestricted, utf8,
} from "@flynnhost/policy";
export { flynn_abi, flynn_buffer } from "@flynnhost/policy";

export function flynn_route(size: u32): i64 {
  return route(size, decide);
}

export function flynn_tool(size: u32): i64 {
  return tool(size, restrict);
}

const BLANK: u8 = 0x20;
const NEWLINE: u8 = 0x0a;

/** What a decision is asked: a verb and its operand. */
class Question {
  verb: Utf8;
  operand: Utf8 = none;

  constructor(text: Utf8) {
    const blank = find(text, BLANK);
    this.verb = text.slice(0, blank);
    this.operand = text.slice(blank + 1);
  }
}

/** Where the text has the byte, or its end. */
function find(text: Utf8, byte: u8): i32 {
  for (let i = 0; i < text.length; i++) {
    if (text.byte(i) == byte) return i;
  }
  return text.length;
}

function decimal(v: i64): Utf8 {
  return utf8(v.toString());
}

function truth(v: bool): Utf8 {
  return utf8(v ? "true" : "false");
}

function bracketed(l: List): Utf8 {
  let all = "";
  for (let item = l.next(); item !== null; item = l.next()) all += "[" + item.toString() + "]";
  return utf8(all);
}

/** A fact that both kinds of frame have. */
function show(f: Facts, name: Utf8): Utf8 {
  if (name.is("channel")) return f.channel;
  if (name.is("conversation")) return f.conversation;
  if (name.is("conversation_kind")) return f.conversationKind;
  if (name.is("parent")) return f.parent;
  if (name.is("sender")) return f.sender;
  if (name.is("sender_name")) return f.senderName;
  if (name.is("account")) return f.account;
  if (name.is("role")) return f.role;
  if (name.is("text")) return f.text;
  if (name.is("text_len")) return decimal(f.textLength);
  if (name.is("full_text")) return f.fullText;
  if (name.is("addressed")) return truth(f.addressed);
  if (name.is("attachments")) return decimal(f.attachments);
  if (name.is("labels")) return bracketed(f.labels);
  if (name.is("door")) return f.door;
  if (name.is("unix_time")) return decimal(f.unixTime);
  if (name.is("minute_of_day")) return decimal(f.minuteOfDay);
  if (name.is("weekday")) return decimal(f.weekday);
  if (name.is("zone")) return f.zone;
  if (name.is("seed")) return decimal(f.seed);
  if (name.is("edited")) return truth(f.edited);
  if (name.is("mentioned")) return truth(f.mentioned);
  if (name.is("attachment_types")) return bracketed(f.attachmentTypes);
  if (name.is("sender_roles")) return bracketed(f.senderRoles);
  if (name.is("session_tokens")) return decimal(f.sessionTokens);
  if (name.is("session_cost")) return decimal(f.sessionCost);
  if (name.is("session_age")) return decimal(f.sessionAge);
  if (name.is("turns")) return decimal(f.turns);
  return utf8("unknown");
}

function showRoute(f: RouteFacts, name: Utf8): Utf8 {
  if (name.is("candidate")) return f.candidate;
  if (name.is("agents")) return bracketed(f.agents);
  return show(f, name);
}

function showTool(f: ToolFacts, name: Utf8): Utf8 {
  if (name.is("agent")) return f.agent;
  if (name.is("tool")) return f.tool;
  if (name.is("effect")) return f.effect;
  if (name.is("session")) return f.session;
  if (name.is("args_digest")) return f.argsDigest;
  if (name.is("sandboxed")) return truth(f.sandboxed);
  if (name.is("calls_in_turn")) return decimal(f.callsInTurn);
  return show(f, name);
}

const fields = new Map<string, u32>();
fields.set("channel", abi.CHANNEL);
fields.set("conversation", abi.CONVERSATION);
fields.set("conversation_kind", abi.CONVERSATION_KIND);
fields.set("parent", abi.PARENT);
fields.set("sender", abi.SENDER);
fields.set("sender_name", abi.SENDER_NAME);
fields.set("account", abi.ACCOUNT);
fields.set("role", abi.ROLE);
fields.set("text", abi.TEXT);
fields.set("text_len", abi.TEXT_LEN);
fields.set("addressed", abi.ADDRESSED);
fields.set("attachments", abi.ATTACHMENTS);
fields.set("labels", abi.LABELS);
fields.set("door", abi.DOOR);
fields.set("unix_time", abi.UNIX_TIME);
fields.set("minute_of_day", abi.MINUTE_OF_DAY);
fields.set("weekday", abi.WEEKDAY);
fields.set("zone", abi.ZONE);
fields.set("seed", abi.SEED);
fields.set("candidate", abi.CANDIDATE);
fields.set("agents", abi.AGENTS);
fields.set("edited", abi.EDITED);
fields.set("mentioned", abi.MENTIONED);
fields.set("attachment_types", abi.ATTACHMENT_TYPES);
fields.set("sender_roles", abi.SENDER_ROLES);
fields.set("session_tokens", abi.SESSION_TOKENS);
fields.set("session_cost", abi.SESSION_COST);
fields.set("session_age", abi.SESSION_AGE);
fields.set("agent", abi.AGENT);
fields.set("tool", abi.TOOL);
fields.set("effect", abi.EFFECT);
fields.set("session", abi.SESSION);
fields.set("args_digest", abi.ARGS_DIGEST);
fields.set("sandboxed", abi.SANDBOXED);
fields.set("calls_in_turn", abi.CALLS_IN_TURN);
fields.set("turns", abi.TURNS);

function has(f: Facts, name: Utf8): Utf8 {
  const key = name.toString();
  return truth(fields.has(key) && f.has(fields.get(key)));
}

function datum(key: Utf8): string {
  const value = data(key);
  return value !== null ? "+" + value.toString() : "-";
}

function isMatch(verb: Utf8): bool {
  return verb.is("glob") || verb.is("cidr") || verb.is("re2") || verb.is("domain");
}

function matches(verb: Utf8, pattern: Utf8, subject: Utf8): bool {
  if (verb.is("glob")) return glob(pattern, subject);
  if (verb.is("cidr")) return cidr(pattern, subject);
  if (verb.is("re2")) return re2(pattern, subject);
  return domain(pattern, subject);
}

function used(f: Facts): bool {
  return f.sessionCost > 5_000_000 || f.sessionTokens > 1_000_000;
}

function anyHas(l: List, prefix: string): bool {
  for (let item = l.next(); item !== null; item = l.next()) {
    if (item.startsWith(prefix)) return true;
  }
  return false;
}

function decide(f: RouteFacts): RouteAnswer {
  const q = new Question(f.text.slice(0, find(f.text, NEWLINE)));
  if (isMatch(q.verb)) return matches(q.verb, q.operand, f.senderName) ? drop(4) : abstain(4);
  if (q.verb.is("show")) return abstain(1).because(showRoute(f, q.operand));
  if (q.verb.is("data")) return abstain(3).because(datum(q.operand));
  if (q.verb.is("agent")) return agent(q.operand, 5).because(f.senderName);
  if (q.verb.is("drop")) return drop(5).because(q.operand);
  if (q.verb.is("abstain")) return abstain(5).because(q.operand);
  if (q.verb.is("has")) return abstain(7).because(has(f, q.operand));
  if (q.verb.is("rule")) return abstain(<u32>parseInt(q.operand.toString()));
  return routeRules(f);
}

function routeRules(f: RouteFacts): RouteAnswer {
  if (f.senderRoles.contains("banned")) return drop(10).because("banned on the platform");
  if (f.edited && !f.mentioned) return drop(11).because("an edit that calls nobody");
  if (anyHas(f.attachmentTypes, "application/x-")) return agent("ops", 12).because("an attachment to look at");
  if (used(f) || f.sessionAge > 86_400) return agent("frugal", 13).because("a session that has used much");
  if (f.conversationKind.is("thread") && f.parent.is("c-ops")) return agent("ops", 14).because("a thread of ops");
  if (f.role.is("owner") && (f.door.is("web") || f.door.is("terminal"))) return agent("coder", 15).because("the owner's own frontend");
  if (f.role.is("guest") && (f.weekday == 0 || f.weekday == 6 || f.minuteOfDay < 540 || f.minuteOfDay >= 1020)) {
    return agent("night", 16).because("out of hours");
  }
  if (glob("*@example.com", f.account)) return agent("staff", 17).because("an account of the house");
  if (f.turns >= 10) return agent("fresh", 18).because("a long session");
  if (!f.addressed) return drop(19).because("nobody called");
  return abstain();
}

/** The string at the pointer; null where there is another thing, or nothing. */
function text(f: ToolFacts, pointer: string): Utf8 | null {
  return f.argKind(pointer) == abi.KIND_STRING ? f.arg(pointer) : null;
}

function orNone(text: Utf8 | null): Utf8 {
  return text !== null ? text : none;
}

function restrict(f: ToolFacts): Restriction {
  const q = new Question(orNone(text(f, "/ask")));
  if (isMatch(q.verb)) return matches(q.verb, q.operand, orNone(text(f, "/subject"))) ? deny(4) : unrestricted(4);
  if (q.verb.is("show")) return unrestricted(1).because(showTool(f, q.operand));
  if (q.verb.is("arg")) return unrestricted(2).because(showArg(f, q.operand));
  if (q.verb.is("data")) return unrestricted(3).because(datum(q.operand));
  if (q.verb.is("restrict")) return restricted(f, q.operand);
  if (q.verb.is("has")) return unrestricted(7).because(has(f, q.operand));
  if (q.verb.is("rule")) return unrestricted(<u32>parseInt(q.operand.toString()));
  return toolRules(f);
}

const kinds = ["absent", "null", "bool", "number", "string", "array", "object"];

function showArg(f: ToolFacts, pointer: Utf8): string {
  return kinds[f.argKind(pointer)] + ":" + orNone(f.arg(pointer)).toString();
}

function restricted(f: ToolFacts, words: Utf8): Restriction {
  const r = unrestricted(6).because(orNone(text(f, "/reason")));
  const list = words.split(BLANK);
  for (let i = 0; i < list.length; i++) {
    const word = list[i];
    if (word.is("deny")) r.deny = true;
    if (word.is("ask")) r.ask = true;
    if (word.is("sandbox")) r.sandbox = true;
    if (word.startsWith("sandbox=")) {
      r.sandbox = true;
      r.sandboxName = word.slice(8);
    }
  }
  return r;
}

/** The restrictions of the rules that apply; number and reason are the first one's. */
class Sum {
  readonly all: Restriction = unrestricted();

  /** Traces the rule, and notes it if it is the first that applies. */
  applies(rule: u32, hit: bool, reason: string): bool {
    trace(rule, hit);
    if (hit && this.all.rule == 0) {
      this.all.rule = rule;
      this.all.because(reason);
    }
    return hit;
  }

  deny(rule: u32, hit: bool, reason: string): void {
    if (this.applies(rule, hit, reason)) this.all.deny = true;
  }

  ask(rule: u32, hit: bool, reason: string): void {
    if (this.applies(rule, hit, reason)) this.all.ask = true;
  }

  sandbox(name: string, rule: u32, hit: bool, reason: string): void {
    if (this.applies(rule, hit, reason)) this.all.sandboxName = utf8(name);
  }
}

function toolRules(f: ToolFacts): Restriction {
  const sum = new Sum();
  const executes = f.effect.is("execute");
  const path = text(f, "/path");
  const host = text(f, "/host");
  const addr = text(f, "/addr");
  const name = text(f, "/items/1/name");
  sum.deny(20, f.agent.is("intern") && !f.effect.is("read"), "interns only read");
  sum.ask(21, executes && anyHas(f.labels, "web:"), "after the web a person looks at commands");
  sum.sandbox("strict", 22, executes && !f.sandboxed, "commands run in a sandbox");
  sum.ask(23, f.callsInTurn >= 20, "many calls in one turn");
  sum.deny(24, path !== null && glob("/etc/*", path), "not the machine's settings");
  sum.ask(25, f.effect.is("network") && (host === null || !domain("example.com", host)), "a host that nobody knows");
  sum.deny(26, addr !== null && cidr("10.0.0.0/8", addr), "inside the house");
  sum.deny(27, f.tool.is("process.kill") && !f.role.is("owner"), "only the owner kills");
  sum.ask(28, used(f), "a session that has used much");
  sum.deny(29, name !== null && name.is("secret"), "the second item is secret");
  sum.ask(30, f.argKind("/force") == abi.KIND_BOOL && orNone(f.arg("/force")).is("true"), "by force");
  sum.deny(31, f.senderRoles.contains("muted"), "muted on the platform");
  sum.ask(32, f.edited, "the message was changed");
  return sum.all;
}
