// group-etiquette: in groups and threads only those who called are answered. README.md says what its data means.
import { firstWord, folded, words } from "@flynnhost/policy/text";
import { RouteAnswer, RouteFacts, Utf8, abstain, drop, glob, route, trace, utf8 } from "@flynnhost/policy";
import { Answer, COMMA, Settings, setting, settingsOf } from "./settings";
export { flynn_abi, flynn_buffer } from "@flynnhost/policy";

// The rules, by their number in README.md.
const BOT = 1;
const MUTED = 2;
const QUIET = 3;
const EDIT = 4;
const CALLED = 5;
const KEYWORD = 6;
const FOLLOWS = 7;
const ALL = 8;
const NOBODY = 9;

// What is taken where the data has no such key.
const BOT_ROLES = utf8("bot");
const QUIET_ROLES = utf8("owner");

export function flynn_route(size: u32): i64 {
  return route(size, decide);
}

function decide(facts: RouteFacts): RouteAnswer {
  const s = settingsOf(facts);
  if (applies(BOT, isBot(facts))) return drop(BOT).because("a program wrote it");
  if (facts.conversationKind.is("dm")) return abstain();
  if (applies(MUTED, s.answer == Answer.None)) return drop(MUTED).because("nothing is answered here");
  if (applies(QUIET, isQuiet(facts, s))) return drop(QUIET).because("quiet hours");
  if (applies(EDIT, facts.edited && !s.edits)) return drop(EDIT).because("an edit");
  if (applies(CALLED, facts.addressed || facts.mentioned)) return abstain(CALLED).because("called");
  if (applies(KEYWORD, hasKeyword(facts.text, s.keywords))) return abstain(KEYWORD).because("a keyword");
  if (applies(FOLLOWS, goesOn(facts, s))) return abstain(FOLLOWS).because("a conversation that goes on");
  if (applies(ALL, s.answer == Answer.All)) return abstain(ALL).because("everything is answered here");
  return drop(NOBODY).because("nobody called");
}

function applies(rule: u32, hit: bool): bool {
  trace(rule, hit);
  return hit;
}

/** Whether a role of the platform or the sender's name in Flynn says that no person wrote the message. */
function isBot(facts: RouteFacts): bool {
  const roles = setting("bot_roles");
  if (has(words(roles.empty ? BOT_ROLES : roles, COMMA), facts.senderRoles.toArray())) return true;
  const senders = words(setting("bots"));
  for (let i = 0; i < senders.length; i++) {
    if (glob(senders[i], facts.sender)) return true;
  }
  return false;
}

/** Whether the conversation is in its quiet hours, and the sender is none of those who may disturb them. */
function isQuiet(facts: RouteFacts, s: Settings): bool {
  const quiet = s.quiet;
  if (quiet === null || !quiet.has(facts.minuteOfDay)) return false;
  const roles = setting("quiet_roles");
  return !has(words(roles.empty ? QUIET_ROLES : roles, COMMA), [facts.role]);
}

function hasKeyword(text: Utf8, keywords: Utf8[]): bool {
  return keywords.length > 0 && firstWord(folded(text), keywords) >= 0;
}

/** Whether the session that the message would continue is one in which it needs no call. */
function goesOn(facts: RouteFacts, s: Settings): bool {
  if (facts.turns == 0) return false;
  if (s.followThreads && facts.conversationKind.is("thread")) return true;
  return facts.sessionAge <= s.follow && s.follow > 0 && (s.followTurns == 0 || facts.turns <= s.followTurns);
}

function has(wanted: Utf8[], have: Utf8[]): bool {
  for (let i = 0; i < wanted.length; i++) {
    for (let k = 0; k < have.length; k++) {
      if (wanted[i].is(have[k])) return true;
    }
  }
  return false;
}
