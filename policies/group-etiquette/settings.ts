import { folded, lines, words } from "@flynnhost/policy/text";
import { Facts, Utf8, data, glob, none, utf8 } from "@flynnhost/policy";
import { Span, readDuration, readNumber, readSpan } from "./clock";

/** What is answered in a conversation. */
export enum Answer {
  Called,
  All,
  None,
}

/** What may stand between words, besides blanks. */
export const COMMA: u8 = 0x2c;

/** How the policy behaves in one conversation. */
export class Settings {
  answer: Answer = Answer.Called;
  keywords: Utf8[] = []; // in lower case
  follow: i64 = 0; // seconds of a session in which what is said goes on with it; 0 is none
  followTurns: i64 = 0; // the most turns of such a session; 0 is any number
  followThreads: bool = true; // what is said in a thread that has a session goes on with it
  quiet: Span | null = null;
  edits: bool = false; // edits are answered

  /** Takes one key. A "-" takes back what it was set to. */
  set(key: Utf8, value: Utf8): void {
    const off = value.is("-");
    if (key.is("answer")) this.answer = off ? Answer.Called : readAnswer(value);
    else if (key.is("keywords")) this.keywords = off ? [] : words(folded(value), COMMA);
    else if (key.is("follow")) this.follow = off ? 0 : readDuration(value);
    else if (key.is("follow_turns")) this.followTurns = off ? 0 : readNumber(value);
    else if (key.is("threads")) this.followThreads = off || either(value, "follow", "called");
    else if (key.is("quiet")) this.quiet = off ? null : readSpan(value);
    else if (key.is("edits")) this.edits = !off && either(value, "answer", "ignore");
    else throw new Error("conversations has the unknown key " + key.toString());
  }
}

function readAnswer(value: Utf8): Answer {
  if (value.is("called")) return Answer.Called;
  if (value.is("all")) return Answer.All;
  if (value.is("none")) return Answer.None;
  throw new Error("answer is called, all or none, not " + value.toString());
}

/** Whether the value is the first of the two words. It has to be one of them. */
function either(value: Utf8, yes: string, no: string): bool {
  if (!value.is(yes) && !value.is(no)) throw new Error("this is " + yes + " or " + no + ", not " + value.toString());
  return value.is(yes);
}

/** One value of the configured data; an empty one counts as none. */
export function setting(key: string): Utf8 {
  const value = data(key);
  return value !== null ? value : none;
}

const keys = ["answer", "keywords", "follow", "follow_turns", "threads", "quiet", "edits"];

/**
 * The settings of the message's conversation: those for all, and over them what the lines of "conversations" say that match, in
 * their order. All of it is read for every message: a slip shows on the first one, not on the unlucky one.
 */
export function settingsOf(facts: Facts): Settings {
  const s = new Settings();
  for (let i = 0; i < keys.length; i++) {
    const value = setting(keys[i]);
    if (!value.empty) s.set(utf8(keys[i]), value);
  }
  const list = lines(setting("conversations"));
  const place = joined(facts.channel, facts.conversation);
  const parent: Utf8 | null = facts.parent.empty ? null : joined(facts.channel, facts.parent);
  for (let i = 0; i < list.length; i++) {
    const parts = words(list[i]);
    const applies = glob(parts[0], place) || (parent !== null && glob(parts[0], parent));
    apply(applies ? s : new Settings(), parts);
  }
  return s;
}

/** Takes the "key=value" of a line, whose first word is the glob. */
function apply(to: Settings, line: Utf8[]): void {
  for (let i = 1; i < line.length; i++) {
    const equals = line[i].indexOf("=");
    if (equals < 1 || equals + 1 == line[i].length) throw new Error("conversations is not like irc:#lobby answer=none: " + line[i].toString());
    to.set(line[i].slice(0, equals), line[i].slice(equals + 1));
  }
}

function joined(channel: Utf8, conversation: Utf8): Utf8 {
  return utf8(channel.toString() + ":" + conversation.toString());
}
