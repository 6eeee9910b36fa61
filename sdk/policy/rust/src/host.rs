//! What a policy asks of the host, and tells it.

use crate::abi;
use crate::hostcall;

/// A kind of JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no such value.
    Absent,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// A list.
    Array,
    /// An object.
    Object,
}

impl Kind {
    pub(crate) fn of(number: i32) -> Kind {
        match number as u32 {
            abi::KIND_NULL => Kind::Null,
            abi::KIND_BOOL => Kind::Bool,
            abi::KIND_NUMBER => Kind::Number,
            abi::KIND_STRING => Kind::String,
            abi::KIND_ARRAY => Kind::Array,
            abi::KIND_OBJECT => Kind::Object,
            _ => Kind::Absent,
        }
    }
}

/// Matches `s` against one of Flynn's globs, with the meaning it has in routing. A bad pattern fails the policy.
pub fn glob(pattern: &str, s: &str) -> bool {
    matches(abi::MATCH_GLOB, pattern, s)
}

/// Reports whether the address `s` lies in the prefix. A bad prefix fails the policy.
pub fn cidr(prefix: &str, s: &str) -> bool {
    matches(abi::MATCH_CIDR, prefix, s)
}

/// Matches `s` against a regular expression of Go's package regexp. A bad one fails the policy.
pub fn re2(expr: &str, s: &str) -> bool {
    matches(abi::MATCH_RE2, expr, s)
}

/// Reports whether `s` is the domain or one below it. A bad domain fails the policy.
pub fn domain(domain: &str, s: &str) -> bool {
    matches(abi::MATCH_DOMAIN, domain, s)
}

/// Gives no quiet "no" for a pattern that means nothing: in a rule that restricts, that would loosen.
fn matches(kind: u32, pattern: &str, s: &str) -> bool {
    match hostcall::matches(kind, pattern, s) {
        0 => false,
        1 => true,
        _ => bad_pattern(pattern),
    }
}

#[cold]
fn bad_pattern(pattern: &str) -> ! {
    log(Level::Error, pattern);
    panic!("the host refuses this pattern")
}

/// Notes in the decision's record that a rule was looked at, and whether it applied.
pub fn trace(rule: u32, hit: bool) {
    hostcall::trace(rule, hit as u32)
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For the policy's author.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warn,
    /// Something is wrong.
    Error,
}

/// Notes a line in the decision's record. The host keeps a few kilobytes of them for each decision.
pub fn log(level: Level, text: &str) {
    hostcall::log(level as u32, text)
}
