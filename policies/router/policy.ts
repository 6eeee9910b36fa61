// router: picks the agent by what is mentioned, by place, by language and by script. README.md says what its data means.
import { firstWord, folded } from "@flynnhost/policy/text";
import { RouteAnswer, RouteFacts, Utf8, abstain, agent, glob, route, trace, utf8 } from "@flynnhost/policy";
import { mainLanguage } from "./languages";
import { mainScript, scriptNames } from "./scripts";
import { Settings } from "./settings";
export { flynn_abi, flynn_buffer } from "@flynnhost/policy";

// The rules, by their number in README.md.
const MENTION = 1;
const PLACE = 2;
const LANGUAGE = 3;
const SCRIPT = 4;

export function flynn_route(size: u32): i64 {
  return route(size, decide);
}

function decide(facts: RouteFacts): RouteAnswer {
  const s = new Settings();
  for (let i = 0; i < s.order.length; i++) {
    const answer = by(s.order[i], facts, s);
    if (answer !== null) return answer;
  }
  return abstain();
}

function by(what: Utf8, facts: RouteFacts, s: Settings): RouteAnswer | null {
  if (what.is("mention")) return traced(MENTION, byMention(facts, s));
  if (what.is("place")) return traced(PLACE, byPlace(facts, s));
  if (what.is("language")) return traced(LANGUAGE, byLanguage(facts, s));
  return traced(SCRIPT, byScript(facts, s));
}

function traced(rule: u32, answer: RouteAnswer | null): RouteAnswer | null {
  trace(rule, answer !== null);
  return answer;
}

/** The first pair whose word the text has. */
function byMention(facts: RouteFacts, s: Settings): RouteAnswer | null {
  if (s.mentions.length == 0) return null;
  const words: Utf8[] = [];
  for (let i = 0; i < s.mentions.length; i++) words.push(folded(s.mentions[i].key));
  const first = firstWord(folded(facts.text), words);
  if (first < 0) return null;
  return agent(s.mentions[first].agent, MENTION).because("mentions " + s.mentions[first].key.toString());
}

/** The first glob that matches the conversation, or that which a thread belongs to. */
function byPlace(facts: RouteFacts, s: Settings): RouteAnswer | null {
  if (s.places.length == 0) return null;
  const place = joined(facts.channel, facts.conversation);
  const parent: Utf8 | null = facts.parent.empty ? null : joined(facts.channel, facts.parent);
  for (let i = 0; i < s.places.length; i++) {
    const p = s.places[i];
    if (glob(p.key, place) || (parent !== null && glob(p.key, parent))) return agent(p.agent, PLACE).because("written in " + p.key.toString());
  }
  return null;
}

function byLanguage(facts: RouteFacts, s: Settings): RouteAnswer | null {
  if (s.languages.length == 0) return null;
  const l = mainLanguage(facts.text, s.languages, s.leastWords);
  return l === null ? null : agent(l.agent, LANGUAGE).because("reads like " + l.code.toString());
}

/** The agent for the script that most letters are of. Where it has none, no other script is asked. */
function byScript(facts: RouteFacts, s: Settings): RouteAnswer | null {
  if (s.scripts.length == 0) return null;
  const name = scriptNames[mainScript(facts.text, s.leastLetters)];
  for (let i = 0; i < s.scripts.length; i++) {
    if (s.scripts[i].key.is(name)) return agent(s.scripts[i].agent, SCRIPT).because("written in " + name + " letters");
  }
  return null;
}

function joined(channel: Utf8, conversation: Utf8): Utf8 {
  return utf8(channel.toString() + ":" + conversation.toString());
}
