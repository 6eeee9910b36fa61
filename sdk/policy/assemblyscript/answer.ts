import { OUT_AGENT, OUT_SANDBOX, ROUTE_ABSTAIN, ROUTE_AGENT, ROUTE_DROP, TOOL_ASK, TOOL_DENY, TOOL_SANDBOX } from "./abi";
import { writeOutput } from "./output";
import { Utf8, none, utf8 } from "./utf8";

/**
 * An answer that the host takes as a failure of the policy: a tool call is denied, a route falls to the agent configured for
 * errors. It is not a verdict of either hook.
 */
export const INVALID: i64 = 0xff;

const MAX_RULE: u32 = (1 << 24) - 1;

/** What the answers of both hooks have. */
export class Answer {
  /** Number of the rule that decided, for explanations; 24 bits. */
  rule: u32 = 0;
  /** For people. */
  reason: Utf8 = none;

  protected pack(verdict: u32, field: u32, name: Utf8): i64 {
    const head = <i64>verdict | (<i64>min(this.rule, MAX_RULE) << 8);
    if (name.empty && this.reason.empty) return head;
    const n = writeOutput(field, name, this.reason);
    return n == 0 ? INVALID : head | (<i64>n << 32);
  }
}

/** The answer of a routing hook. A new one abstains: the next policy decides, and after the last the static table's candidate. */
@final
export class RouteAnswer extends Answer {
  /** This agent answers; it must be one of RouteFacts.agents. */
  agent: Utf8 = none;
  /** Nobody answers. */
  drop: bool = false;

  /** Says why, for people. */
  because<S>(reason: S): RouteAnswer {
    this.reason = utf8(reason);
    return this;
  }

  encode(): i64 {
    if (this.agent.empty) return this.pack(this.drop ? ROUTE_DROP : ROUTE_ABSTAIN, 0, none);
    return this.drop ? INVALID : this.pack(ROUTE_AGENT, OUT_AGENT, this.agent);
  }
}

/** Leaves the decision to the next policy. */
export function abstain(rule: u32 = 0): RouteAnswer {
  const a = new RouteAnswer();
  a.rule = rule;
  return a;
}

/** Lets the agent answer. One without a name fails the policy. */
export function agent<S>(name: S, rule: u32 = 0): RouteAnswer {
  const a = abstain(rule);
  a.agent = utf8(name);
  if (a.agent.empty) throw new Error("the answer names no agent");
  return a;
}

/** Lets nobody answer. */
export function drop(rule: u32 = 0): RouteAnswer {
  const a = abstain(rule);
  a.drop = true;
  return a;
}

/**
 * The answer of a tool hook. A new one restricts nothing; policies can only add restrictions, never lift what another one
 * demands.
 */
@final
export class Restriction extends Answer {
  deny: bool = false;
  /** A person has to approve. */
  ask: bool = false;
  /** The call runs in a sandbox. */
  sandbox: bool = false;
  /** In this one; implies sandbox. Empty means the agent's own or the default one. */
  sandboxName: Utf8 = none;

  /** Says why, for people. */
  because<S>(reason: S): Restriction {
    this.reason = utf8(reason);
    return this;
  }

  encode(): i64 {
    let verdict: u32 = 0;
    if (this.deny) verdict |= TOOL_DENY;
    if (this.ask) verdict |= TOOL_ASK;
    if (this.sandbox || !this.sandboxName.empty) verdict |= TOOL_SANDBOX;
    return this.pack(verdict, OUT_SANDBOX, this.sandboxName);
  }
}

/** Restricts nothing. */
export function unrestricted(rule: u32 = 0): Restriction {
  const r = new Restriction();
  r.rule = rule;
  return r;
}

/** Refuses the call. */
export function deny(rule: u32 = 0): Restriction {
  const r = unrestricted(rule);
  r.deny = true;
  return r;
}

/** Wants a person to approve the call. */
export function ask(rule: u32 = 0): Restriction {
  const r = unrestricted(rule);
  r.ask = true;
  return r;
}

/** Wants the call to run in a sandbox: the agent's own or the default one. */
export function sandbox(rule: u32 = 0): Restriction {
  const r = unrestricted(rule);
  r.sandbox = true;
  return r;
}

/** Wants the call to run in the sandbox of this name. */
export function sandboxIn<S>(name: S, rule: u32 = 0): Restriction {
  const r = sandbox(rule);
  r.sandboxName = utf8(name);
  return r;
}
