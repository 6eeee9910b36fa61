import * as abi from "./abi";
import { Frame } from "./frame";
import { argument, argumentKind, wholeField } from "./host";
import { List } from "./list";
import { Utf8, utf8 } from "./utf8";

/** What both kinds of decision know. A fact that the host does not have reads as empty, 0 or false. */
export class Facts extends Frame {
  /** The channel's instance name, as configured. */
  get channel(): Utf8 {
    return this.string(abi.CHANNEL);
  }

  /** The platform's identifier of the conversation. */
  get conversation(): Utf8 {
    return this.string(abi.CONVERSATION);
  }

  /** "dm", "group" or "thread". */
  get conversationKind(): Utf8 {
    return this.string(abi.CONVERSATION_KIND);
  }

  /** The conversation that a thread belongs to. */
  get parent(): Utf8 {
    return this.string(abi.PARENT);
  }

  /** "instance:platform-id". Rules belong on this, never on senderName. */
  get sender(): Utf8 {
    return this.string(abi.SENDER);
  }

  /** What people see; the sender can change it at will. */
  get senderName(): Utf8 {
    return this.string(abi.SENDER_NAME);
  }

  /** The authenticated account behind the sender, or nothing. */
  get account(): Utf8 {
    return this.string(abi.ACCOUNT);
  }

  /** "owner", "member" or "guest". Treat anything but an exact match as the least of them. */
  get role(): Utf8 {
    return this.string(abi.ROLE);
  }

  /** The start of the message's text, at most TEXT_IN_FRAME bytes. See fullText. */
  get text(): Utf8 {
    return this.string(abi.TEXT);
  }

  /** The length of the whole text in bytes. */
  get textLength(): i64 {
    return this.integer(abi.TEXT_LEN);
  }

  /** The whole text; it asks the host only when the frame holds less. */
  get fullText(): Utf8 {
    const start = this.text;
    if (this.textLength <= <i64>start.length) return start;
    const whole = wholeField(abi.TEXT);
    return whole !== null ? whole : start;
  }

  /** Whether it is a private chat, or the message mentions Flynn. */
  get addressed(): bool {
    return this.flag(abi.ADDRESSED);
  }

  /** The number of attachments. */
  get attachments(): i64 {
    return this.integer(abi.ATTACHMENTS);
  }

  /** The media types of the attachments, empty where the channel tells none. */
  get attachmentTypes(): List {
    return this.list(abi.ATTACHMENT_TYPES);
  }

  /** Whether the message replaces an earlier one of its sender. */
  get edited(): bool {
    return this.flag(abi.EDITED);
  }

  /** Whether the message names Flynn, in a private chat too. */
  get mentioned(): bool {
    return this.flag(abi.MENTIONED);
  }

  /** The roles that the platform gives the sender, as the channel tells them ("moderator"). Flynn's own is role. */
  get senderRoles(): List {
    return this.list(abi.SENDER_ROLES);
  }

  /** The session's turns before this one. The session of a message that is being routed is the one that it would continue with
   * the candidate. */
  get turns(): i64 {
    return this.integer(abi.TURNS);
  }

  /** The model tokens that the session has used. */
  get sessionTokens(): i64 {
    return this.integer(abi.SESSION_TOKENS);
  }

  /** What the session has cost, in millionths of a dollar. */
  get sessionCost(): i64 {
    return this.integer(abi.SESSION_COST);
  }

  /** The seconds since the session began. */
  get sessionAge(): i64 {
    return this.integer(abi.SESSION_AGE);
  }

  /** The provenance labels of the session ("web:example.com"). */
  get labels(): List {
    return this.list(abi.LABELS);
  }

  /** "channel", "web" or "terminal". */
  get door(): Utf8 {
    return this.string(abi.DOOR);
  }

  /** The time of the decision in seconds. It is the only clock that a policy has. */
  get unixTime(): i64 {
    return this.integer(abi.UNIX_TIME);
  }

  /** 0 to 1439, in the host's zone. */
  get minuteOfDay(): i64 {
    return this.integer(abi.MINUTE_OF_DAY);
  }

  /** 0 for Sunday to 6 for Saturday, in the host's zone. */
  get weekday(): i64 {
    return this.integer(abi.WEEKDAY);
  }

  /** The IANA name of the host's zone. */
  get zone(): Utf8 {
    return this.string(abi.ZONE);
  }

  /** The only randomness that a policy has; it is recorded with the decision. */
  get seed(): i64 {
    return this.integer(abi.SEED);
  }
}

/** The facts of a routing decision. */
@final
export class RouteFacts extends Facts {
  /** The agent that the static table chose, or nothing. */
  get candidate(): Utf8 {
    return this.string(abi.CANDIDATE);
  }

  /** The agents that may be chosen. */
  get agents(): List {
    return this.list(abi.AGENTS);
  }
}

/** The facts of a tool decision. */
@final
export class ToolFacts extends Facts {
  /** The agent that wants to call the tool. */
  get agent(): Utf8 {
    return this.string(abi.AGENT);
  }

  /** The tool's name ("shell.exec"). */
  get tool(): Utf8 {
    return this.string(abi.TOOL);
  }

  /** "read", "write", "network" or "execute", as the host knows it. */
  get effect(): Utf8 {
    return this.string(abi.EFFECT);
  }

  /** The session's key. */
  get session(): Utf8 {
    return this.string(abi.SESSION);
  }

  /** The SHA-256 of the canonical arguments, in hex. */
  get argsDigest(): Utf8 {
    return this.string(abi.ARGS_DIGEST);
  }

  /** Whether the call would run in a sandbox as things stand. */
  get sandboxed(): bool {
    return this.flag(abi.SANDBOXED);
  }

  /** The turn's tool calls before this one. */
  get callsInTurn(): i64 {
    return this.integer(abi.CALLS_IN_TURN);
  }

  /** The argument at a JSON Pointer (RFC 6901): a string comes unquoted, anything else as JSON text; null where there is none. */
  arg<S>(pointer: S): Utf8 | null {
    return argument(utf8(pointer));
  }

  /** The kind of JSON value at the pointer: KIND_ABSENT to KIND_OBJECT of "@flynnhost/policy/abi". */
  argKind<S>(pointer: S): u32 {
    return argumentKind(utf8(pointer));
  }
}
