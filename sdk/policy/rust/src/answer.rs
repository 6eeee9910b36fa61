//! What a hook answers.

use crate::abi;
use crate::host::{log, Level};
use crate::output::{self, Output};

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The next policy decides, and after the last the static table's candidate stands.
    Abstain,
    /// This agent answers; it must be one of `RouteFacts::agents`.
    Agent(&'a str),
    /// Nobody answers.
    Drop,
}

/// The answer of a routing hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteAnswer<'a> {
    /// What becomes of the message.
    pub verdict: Verdict<'a>,
    /// The number of the rule that decided, for explanations; 24 bits.
    pub rule: u32,
    /// For people.
    pub reason: &'a str,
}

impl<'a> RouteAnswer<'a> {
    /// Leaves the message to the next policy.
    pub const fn abstain() -> RouteAnswer<'a> {
        RouteAnswer { verdict: Verdict::Abstain, rule: 0, reason: "" }
    }

    /// Gives the message to an agent.
    pub const fn agent(name: &'a str) -> RouteAnswer<'a> {
        RouteAnswer { verdict: Verdict::Agent(name), rule: 0, reason: "" }
    }

    /// Gives the message to nobody.
    pub const fn drop() -> RouteAnswer<'a> {
        RouteAnswer { verdict: Verdict::Drop, rule: 0, reason: "" }
    }

    /// Names the rule that decided.
    pub const fn rule(self, rule: u32) -> RouteAnswer<'a> {
        RouteAnswer { rule, ..self }
    }

    /// Says why.
    pub const fn reason(self, reason: &'a str) -> RouteAnswer<'a> {
        RouteAnswer { reason, ..self }
    }
}

/// The answer of a tool hook: a set of restrictions. Policies can only add restrictions, never lift what another one demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restriction<'a> {
    /// The call does not happen.
    pub deny: bool,
    /// A person has to approve.
    pub ask: bool,
    /// The call runs in a sandbox.
    pub sandbox: bool,
    /// This sandbox, which implies `sandbox`. "" means the agent's own or the default one.
    pub sandbox_name: &'a str,
    /// The number of the rule that decided, for explanations; 24 bits.
    pub rule: u32,
    /// For people.
    pub reason: &'a str,
}

impl<'a> Restriction<'a> {
    /// Restricts nothing.
    pub const fn none() -> Restriction<'a> {
        Restriction { deny: false, ask: false, sandbox: false, sandbox_name: "", rule: 0, reason: "" }
    }

    /// Adds that the call does not happen.
    pub const fn deny(self) -> Restriction<'a> {
        Restriction { deny: true, ..self }
    }

    /// Adds that a person has to approve.
    pub const fn ask(self) -> Restriction<'a> {
        Restriction { ask: true, ..self }
    }

    /// Adds the agent's own sandbox, or the default one.
    pub const fn sandbox(self) -> Restriction<'a> {
        Restriction { sandbox: true, ..self }
    }

    /// Adds the sandbox of this name.
    pub const fn sandbox_named(self, name: &'a str) -> Restriction<'a> {
        Restriction { sandbox: true, sandbox_name: name, ..self }
    }

    /// Names the rule that decided.
    pub const fn rule(self, rule: u32) -> Restriction<'a> {
        Restriction { rule, ..self }
    }

    /// Says why.
    pub const fn reason(self, reason: &'a str) -> Restriction<'a> {
        Restriction { reason, ..self }
    }

    /// Adds what another rule demands. The rule and the reason that are there already stay, and so does a sandbox's name.
    pub const fn join(self, other: Restriction<'a>) -> Restriction<'a> {
        Restriction {
            deny: self.deny || other.deny,
            ask: self.ask || other.ask,
            sandbox: self.sandbox || other.sandbox,
            sandbox_name: if self.sandbox_name.is_empty() { other.sandbox_name } else { self.sandbox_name },
            rule: if self.rule == 0 { other.rule } else { self.rule },
            reason: if self.rule == 0 && self.reason.is_empty() { other.reason } else { self.reason },
        }
    }
}

/// What a routing hook may return: a [`RouteAnswer`], or a `Result` of one whose error is the text of why the policy fails.
pub trait RouteResult {
    #[doc(hidden)]
    fn output(self) -> Output;
}

impl RouteResult for RouteAnswer<'_> {
    #[inline]
    fn output(self) -> Output {
        match self.verdict {
            Verdict::Abstain => output::write(abi::ROUTE_ABSTAIN, self.rule, 0, "", self.reason),
            Verdict::Agent("") => Output::FAILED,
            Verdict::Agent(name) => output::write(abi::ROUTE_AGENT, self.rule, abi::OUT_AGENT, name, self.reason),
            Verdict::Drop => output::write(abi::ROUTE_DROP, self.rule, 0, "", self.reason),
        }
    }
}

impl<R: RouteResult, E: AsRef<str>> RouteResult for Result<R, E> {
    #[inline]
    fn output(self) -> Output {
        self.map_or_else(failed, R::output)
    }
}

/// What a tool hook may return: a [`Restriction`], or a `Result` of one whose error is the text of why the policy fails.
pub trait ToolResult {
    #[doc(hidden)]
    fn output(self) -> Output;
}

impl ToolResult for Restriction<'_> {
    #[inline]
    fn output(self) -> Output {
        let mut bits = 0;
        if self.deny {
            bits |= abi::TOOL_DENY;
        }
        if self.ask {
            bits |= abi::TOOL_ASK;
        }
        if self.sandbox || !self.sandbox_name.is_empty() {
            bits |= abi::TOOL_SANDBOX;
        }
        output::write(bits, self.rule, abi::OUT_SANDBOX, self.sandbox_name, self.reason)
    }
}

impl<R: ToolResult, E: AsRef<str>> ToolResult for Result<R, E> {
    #[inline]
    fn output(self) -> Output {
        self.map_or_else(failed, R::output)
    }
}

fn failed<E: AsRef<str>>(why: E) -> Output {
    log(Level::Error, why.as_ref());
    Output::FAILED
}
