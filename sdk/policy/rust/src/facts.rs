//! What a hook is told.

use core::fmt;
use core::ops::Deref;

use crate::abi;
use crate::arena;
use crate::frame::{self, Frame, ANY_TYPE};
use crate::host::Kind;
use crate::hostcall;
use crate::list::List;

/// The facts that both kinds of decision know. A fact that the host does not have reads as empty, 0 or false;
/// [`has`](Facts::has) tells absent from empty.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    frame: Frame<'a>,
}

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident: $kind:ident = $id:ident;)*) => {
        $($(#[$doc])* #[inline] pub fn $name(&self) -> facts!(@type $kind) { self.$kind(abi::$id) })*
    };
    (@type text_of) => { &'a str };
    (@type int_of) => { i64 };
    (@type bool_of) => { bool };
    (@type list_of) => { List<'a> };
}

impl<'a> Facts<'a> {
    /// The bytes of a fact as the host wrote them, whatever their type: `f.bytes(abi::SENDER)`.
    pub fn bytes(&self, id: u32) -> Option<&'a [u8]> {
        self.frame.find(id, ANY_TYPE)
    }

    /// Reports whether the host stated the fact at all: `f.has(abi::ACCOUNT)`.
    pub fn has(&self, id: u32) -> bool {
        self.bytes(id).is_some()
    }

    fn text_of(&self, id: u32) -> &'a str {
        self.frame.find(id, abi::TYPE_STRING).map_or("", frame::text)
    }

    fn int_of(&self, id: u32) -> i64 {
        match self.frame.find(id, abi::TYPE_INT) {
            Some(&[a, b, c, d, e, f, g, h]) => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => 0,
        }
    }

    fn bool_of(&self, id: u32) -> bool {
        self.frame.find(id, abi::TYPE_BOOL) == Some(&[1])
    }

    fn list_of(&self, id: u32) -> List<'a> {
        List::new(self.frame.find(id, abi::TYPE_LIST).unwrap_or(&[]))
    }

    facts! {
        /// The channel's instance name, as configured.
        channel: text_of = CHANNEL;
        /// The platform's identifier of the conversation.
        conversation: text_of = CONVERSATION;
        /// "dm", "group" or "thread".
        conversation_kind: text_of = CONVERSATION_KIND;
        /// The conversation that a thread belongs to.
        parent: text_of = PARENT;
        /// "instance:platform-id". Rules belong on this, never on `sender_name`.
        sender: text_of = SENDER;
        /// What people see; the sender can change it at will.
        sender_name: text_of = SENDER_NAME;
        /// The authenticated account behind the sender, or "".
        account: text_of = ACCOUNT;
        /// "owner", "member" or "guest". Treat anything but an exact match as the least of them.
        role: text_of = ROLE;
        /// The start of the message's text, at most `abi::TEXT_IN_FRAME` bytes. See `full_text`.
        text: text_of = TEXT;
        /// The length of the whole text in bytes.
        text_len: int_of = TEXT_LEN;
        /// True in a private chat and when the message mentions Flynn.
        addressed: bool_of = ADDRESSED;
        /// The number of attachments.
        attachments: int_of = ATTACHMENTS;
        /// The media types of the attachments, "" where the channel tells none.
        attachment_types: list_of = ATTACHMENT_TYPES;
        /// True when the message replaces an earlier one of its sender.
        edited: bool_of = EDITED;
        /// True when the message names Flynn, in a private chat too.
        mentioned: bool_of = MENTIONED;
        /// The roles that the platform gives the sender, as the channel tells them ("moderator"). Flynn's own is `role`.
        sender_roles: list_of = SENDER_ROLES;
        /// The session's turns before this one. The session of a message that is being routed is the one that it would continue
        /// with the candidate.
        turns: int_of = TURNS;
        /// The model tokens that the session has used.
        session_tokens: int_of = SESSION_TOKENS;
        /// What the session has cost, in millionths of a dollar.
        session_cost: int_of = SESSION_COST;
        /// The seconds since the session began.
        session_age: int_of = SESSION_AGE;
        /// The provenance labels of the session ("web:example.com").
        labels: list_of = LABELS;
        /// "channel", "web" or "terminal".
        door: text_of = DOOR;
        /// The time of the decision in seconds. It is the only clock that a policy has.
        unix_time: int_of = UNIX_TIME;
        /// 0 to 1439, in the host's zone.
        minute_of_day: int_of = MINUTE_OF_DAY;
        /// 0 for Sunday to 6 for Saturday, in the host's zone.
        weekday: int_of = WEEKDAY;
        /// The IANA name of the host's zone.
        zone: text_of = ZONE;
        /// The only randomness that a policy has; it is recorded with the decision.
        seed: int_of = SEED;
    }

    /// The whole text of the message; it asks the host only when the frame holds less.
    pub fn full_text(&self) -> &'a str {
        let start = self.text();
        if self.text_len() <= start.len() as i64 {
            return start;
        }
        arena::read(|room| hostcall::get(abi::TEXT, 0, room)).unwrap_or(start)
    }

    /// One value of the policy's own configuration, `[policies.data]` in flynn.toml; `None` when the key is not set.
    pub fn data(&self, key: &str) -> Option<&'a str> {
        arena::read(|room| hostcall::data(key, room))
    }

    /// Joins texts, for a reason: `f.concat(&["not the tool ", f.tool()])`.
    pub fn concat(&self, parts: &[&str]) -> &'a str {
        arena::concat(parts)
    }

    /// Writes a number out, for a reason.
    pub fn decimal(&self, v: i64) -> &'a str {
        arena::decimal(v)
    }

    /// Formats a text, for a reason: `f.format(format_args!("{} calls", n))`. It makes a module some kilobytes larger, which
    /// `concat` does not.
    pub fn format(&self, args: fmt::Arguments<'_>) -> &'a str {
        arena::format(args)
    }
}

/// The facts of a routing decision.
#[derive(Clone, Copy)]
pub struct RouteFacts<'a> {
    facts: Facts<'a>,
}

impl<'a> RouteFacts<'a> {
    /// Reads a whole frame, as a test has it; a hook is handed its facts.
    pub fn read(frame: &'a [u8]) -> Option<RouteFacts<'a>> {
        Some(RouteFacts { facts: Facts { frame: Frame::open(frame, abi::FRAME_ROUTE)? } })
    }

    facts! {
        /// The agent that the static table chose, or "".
        candidate: text_of = CANDIDATE;
        /// The agents that may be chosen.
        agents: list_of = AGENTS;
    }
}

impl<'a> Deref for RouteFacts<'a> {
    type Target = Facts<'a>;

    fn deref(&self) -> &Facts<'a> {
        &self.facts
    }
}

/// The facts of a tool decision.
#[derive(Clone, Copy)]
pub struct ToolFacts<'a> {
    facts: Facts<'a>,
}

impl<'a> ToolFacts<'a> {
    /// Reads a whole frame, as a test has it; a hook is handed its facts.
    pub fn read(frame: &'a [u8]) -> Option<ToolFacts<'a>> {
        Some(ToolFacts { facts: Facts { frame: Frame::open(frame, abi::FRAME_TOOL)? } })
    }

    facts! {
        /// The agent that wants to call the tool.
        agent: text_of = AGENT;
        /// The tool's name ("shell.exec").
        tool: text_of = TOOL;
        /// "read", "write", "network" or "execute", as the host knows it.
        effect: text_of = EFFECT;
        /// The session's key.
        session: text_of = SESSION;
        /// The SHA-256 of the canonical arguments, in hex.
        args_digest: text_of = ARGS_DIGEST;
        /// True when the call would run in a sandbox as things stand.
        sandboxed: bool_of = SANDBOXED;
        /// The turn's tool calls before this one.
        calls_in_turn: int_of = CALLS_IN_TURN;
    }

    /// Reads the tool's arguments by JSON Pointer (RFC 6901): a string comes unquoted, anything else as JSON text. `None` when
    /// the arguments have no such value.
    pub fn arg(&self, pointer: &str) -> Option<&'a str> {
        arena::read(|room| hostcall::arg(pointer, room))
    }

    /// What kind of JSON value stands at the pointer.
    pub fn arg_kind(&self, pointer: &str) -> Kind {
        Kind::of(hostcall::arg_kind(pointer))
    }

    /// The string at the pointer; `None` when there is nothing, or anything but a string.
    pub fn arg_text(&self, pointer: &str) -> Option<&'a str> {
        match self.arg_kind(pointer) {
            Kind::String => self.arg(pointer),
            _ => None,
        }
    }
}

impl<'a> Deref for ToolFacts<'a> {
    type Target = Facts<'a>;

    fn deref(&self) -> &Facts<'a> {
        &self.facts
    }
}
