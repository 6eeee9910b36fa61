//! This policy reads everything that the SDK can read and answers with a hash of it. Its siblings in other languages have to give
//! the same answer to every question.
#![no_std]
#![forbid(unsafe_code)]

use flynn::{glob, trace, Facts, List, Restriction, RouteAnswer, RouteFacts, ToolFacts};

flynn::route!(route);
flynn::tool!(restrict);

/// FNV-1a, 32 bits.
struct Hash(u32);

impl Hash {
    fn byte(&mut self, b: u8) {
        self.0 = (self.0 ^ b as u32).wrapping_mul(16777619);
    }

    fn text(&mut self, s: &str) {
        s.bytes().for_each(|b| self.byte(b));
        self.byte(0xff);
    }

    fn int(&mut self, v: i64) {
        v.to_le_bytes().iter().for_each(|b| self.byte(*b));
    }

    fn truth(&mut self, v: bool) {
        self.byte(v as u8);
    }

    fn list(&mut self, l: List<'_>) {
        l.for_each(|item| self.text(item));
        self.byte(0xfe);
    }

    fn lazy(&mut self, s: Option<&str>) {
        self.truth(s.is_some());
        self.text(s.unwrap_or(""));
    }

    /// The answer has 24 bits for it.
    fn rule(&self) -> u32 {
        (self.0 ^ self.0 >> 24) & 0xffffff
    }
}

fn common(f: &Facts<'_>) -> Hash {
    let mut h = Hash(2166136261);
    for id in 0..=70 {
        h.truth(f.has(id));
    }
    for s in [
        f.channel(),
        f.conversation(),
        f.conversation_kind(),
        f.parent(),
        f.sender(),
        f.sender_name(),
        f.account(),
        f.role(),
        f.text(),
        f.door(),
        f.zone(),
    ] {
        h.text(s);
    }
    for v in [
        f.text_len(),
        f.attachments(),
        f.unix_time(),
        f.minute_of_day(),
        f.weekday(),
        f.seed(),
        f.session_tokens(),
        f.session_cost(),
        f.session_age(),
        f.turns(),
    ] {
        h.int(v);
    }
    for v in [f.addressed(), f.edited(), f.mentioned()] {
        h.truth(v);
    }
    for l in [f.labels(), f.attachment_types(), f.sender_roles()] {
        h.list(l);
    }
    h.text(f.full_text());
    h.lazy(f.data("key"));
    h.lazy(f.data("absent"));
    h
}

fn route(f: RouteFacts<'_>) -> RouteAnswer<'_> {
    let mut h = common(&f);
    h.text(f.candidate());
    h.list(f.agents());
    trace(h.rule(), f.addressed());
    match f.text() {
        "agent" if !f.candidate().is_empty() => RouteAnswer::agent(f.candidate()).reason(f.sender_name()),
        "agent" => RouteAnswer::abstain().reason(f.sender_name()),
        "last" => match f.agents().last() {
            None | Some("") => RouteAnswer::abstain(),
            Some(name) => RouteAnswer::agent(name),
        },
        "drop" => RouteAnswer::drop().reason(f.text()),
        "glob" if glob("irc:b*", f.sender()) => RouteAnswer::drop(),
        _ => RouteAnswer::abstain().reason(f.full_text()),
    }
    .rule(h.rule())
}

fn restrict(f: ToolFacts<'_>) -> Restriction<'_> {
    let mut h = common(&f);
    for s in [f.agent(), f.tool(), f.effect(), f.session(), f.args_digest()] {
        h.text(s);
    }
    h.int(f.calls_in_turn());
    h.truth(f.sandboxed());
    for p in ["", "/command", "/list/0", "/list/1", "/a~1b", "/none", "bad"] {
        h.int(f.arg_kind(p) as i64);
        h.lazy(f.arg(p));
    }
    let bits = f.calls_in_turn();
    let mut r = Restriction::none().rule(h.rule()).reason(f.text());
    (r.deny, r.ask, r.sandbox) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
    if r.sandbox {
        r.sandbox_name = f.labels().next().unwrap_or("");
    }
    r
}
