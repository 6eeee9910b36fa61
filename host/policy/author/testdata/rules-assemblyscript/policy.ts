// Twenty rules, first match on channel and the beginning of the sender: the twin of rules-c and rules-go.
import { RouteAnswer, RouteFacts, Utf8, abstain, agent, route, utf8 } from "@flynnhost/policy";
export { flynn_abi, flynn_buffer } from "@flynnhost/policy";

export function flynn_route(size: u32): i64 {
  return route(size, decide);
}

class Rule {
  readonly channel: Utf8;
  readonly prefix: Utf8;
  readonly agent: Utf8;

  constructor(channel: string, prefix: string, agent: string) {
    this.channel = utf8(channel);
    this.prefix = utf8(prefix);
    this.agent = utf8(agent);
  }
}

const rules: Rule[] = [
  new Rule("telegram", "telegram:100", "agent-01"),
  new Rule("telegram", "telegram:101", "agent-02"),
  new Rule("telegram", "telegram:102", "agent-03"),
  new Rule("telegram", "telegram:2", "agent-04"),
  new Rule("discord", "discord:3000", "agent-05"),
  new Rule("discord", "discord:3001", "agent-06"),
  new Rule("discord", "discord:31", "agent-07"),
  new Rule("discord", "discord:4", "agent-08"),
  new Rule("slack", "slack:U00", "agent-09"),
  new Rule("slack", "slack:U01", "agent-10"),
  new Rule("slack", "slack:U02", "agent-11"),
  new Rule("slack", "slack:W", "agent-12"),
  new Rule("irc", "irc:al", "agent-13"),
  new Rule("irc", "irc:bo", "agent-14"),
  new Rule("irc", "irc:ca", "agent-15"),
  new Rule("irc", "irc:da", "agent-16"),
  new Rule("whatsapp", "whatsapp:+49", "agent-17"),
  new Rule("whatsapp", "whatsapp:+33", "agent-18"),
  new Rule("web", "web:", "agent-19"),
  new Rule("matrix", "matrix:@", "agent-20"),
];

function decide(facts: RouteFacts): RouteAnswer {
  const channel = facts.channel;
  const sender = facts.sender;
  for (let i = 0; i < rules.length; i++) {
    const r = unchecked(rules[i]);
    if (r.channel.is(channel) && sender.startsWith(r.prefix)) return agent(r.agent, <u32>i + 1);
  }
  return abstain();
}
