//! The table policy; ../README.md says what it does.
#![no_std]
#![forbid(unsafe_code)]

use flynn::{abi, cidr, domain, glob, re2, trace, Facts, Kind, List, Restriction, RouteAnswer, RouteFacts, ToolFacts};

flynn::route!(route);
flynn::tool!(restrict);

/// The question's verb and operand.
fn split(question: &str) -> (&str, &str) {
    question.split_once(' ').unwrap_or((question, ""))
}

fn truth(v: bool) -> &'static str {
    if v {
        "true"
    } else {
        "false"
    }
}

fn bracketed<'a>(f: &Facts<'a>, list: List<'a>) -> &'a str {
    list.fold("", |all, item| f.concat(&[all, "[", item, "]"]))
}

/// A fact that both kinds of frame have.
fn show<'a>(f: &Facts<'a>, name: &str) -> &'a str {
    match name {
        "channel" => f.channel(),
        "conversation" => f.conversation(),
        "conversation_kind" => f.conversation_kind(),
        "parent" => f.parent(),
        "sender" => f.sender(),
        "sender_name" => f.sender_name(),
        "account" => f.account(),
        "role" => f.role(),
        "text" => f.text(),
        "text_len" => f.decimal(f.text_len()),
        "full_text" => f.full_text(),
        "addressed" => truth(f.addressed()),
        "attachments" => f.decimal(f.attachments()),
        "labels" => bracketed(f, f.labels()),
        "door" => f.door(),
        "unix_time" => f.decimal(f.unix_time()),
        "minute_of_day" => f.decimal(f.minute_of_day()),
        "weekday" => f.decimal(f.weekday()),
        "zone" => f.zone(),
        "seed" => f.decimal(f.seed()),
        "edited" => truth(f.edited()),
        "mentioned" => truth(f.mentioned()),
        "attachment_types" => bracketed(f, f.attachment_types()),
        "sender_roles" => bracketed(f, f.sender_roles()),
        "session_tokens" => f.decimal(f.session_tokens()),
        "session_cost" => f.decimal(f.session_cost()),
        "session_age" => f.decimal(f.session_age()),
        "turns" => f.decimal(f.turns()),
        _ => "unknown",
    }
}

fn show_route<'a>(f: &RouteFacts<'a>, name: &str) -> &'a str {
    match name {
        "candidate" => f.candidate(),
        "agents" => bracketed(f, f.agents()),
        _ => show(f, name),
    }
}

fn show_tool<'a>(f: &ToolFacts<'a>, name: &str) -> &'a str {
    match name {
        "agent" => f.agent(),
        "tool" => f.tool(),
        "effect" => f.effect(),
        "session" => f.session(),
        "args_digest" => f.args_digest(),
        "sandboxed" => truth(f.sandboxed()),
        "calls_in_turn" => f.decimal(f.calls_in_turn()),
        _ => show(f, name),
    }
}

#[rustfmt::skip]
const IDS: [(&str, u32); 36] = [
    ("channel", abi::CHANNEL), ("conversation", abi::CONVERSATION), ("conversation_kind", abi::CONVERSATION_KIND), ("parent", abi::PARENT),
    ("sender", abi::SENDER), ("sender_name", abi::SENDER_NAME), ("account", abi::ACCOUNT), ("role", abi::ROLE), ("text", abi::TEXT),
    ("text_len", abi::TEXT_LEN), ("addressed", abi::ADDRESSED), ("attachments", abi::ATTACHMENTS), ("labels", abi::LABELS),
    ("door", abi::DOOR), ("unix_time", abi::UNIX_TIME), ("minute_of_day", abi::MINUTE_OF_DAY), ("weekday", abi::WEEKDAY),
    ("zone", abi::ZONE), ("seed", abi::SEED), ("candidate", abi::CANDIDATE), ("agents", abi::AGENTS), ("edited", abi::EDITED),
    ("mentioned", abi::MENTIONED), ("attachment_types", abi::ATTACHMENT_TYPES), ("sender_roles", abi::SENDER_ROLES),
    ("session_tokens", abi::SESSION_TOKENS), ("session_cost", abi::SESSION_COST), ("session_age", abi::SESSION_AGE),
    ("agent", abi::AGENT), ("tool", abi::TOOL), ("effect", abi::EFFECT), ("session", abi::SESSION), ("args_digest", abi::ARGS_DIGEST),
    ("sandboxed", abi::SANDBOXED), ("calls_in_turn", abi::CALLS_IN_TURN), ("turns", abi::TURNS),
];

fn has(f: &Facts<'_>, name: &str) -> &'static str {
    truth(IDS.iter().any(|(n, id)| *n == name && f.has(*id)))
}

fn datum<'a>(f: &Facts<'a>, key: &str) -> &'a str {
    match f.data(key) {
        Some(v) => f.format(format_args!("+{}", v)),
        None => "-",
    }
}

/// Whether the subject matches, where the verb is one that matches.
fn matches(verb: &str, pattern: &str, subject: &str) -> Option<bool> {
    match verb {
        "glob" => Some(glob(pattern, subject)),
        "cidr" => Some(cidr(pattern, subject)),
        "re2" => Some(re2(pattern, subject)),
        "domain" => Some(domain(pattern, subject)),
        _ => None,
    }
}

fn used(f: &Facts<'_>) -> bool {
    f.session_cost() > 5_000_000 || f.session_tokens() > 1_000_000
}

fn route(f: RouteFacts<'_>) -> RouteAnswer<'_> {
    let (verb, operand) = split(f.text().split('\n').next().unwrap_or(""));
    if let Some(hit) = matches(verb, operand, f.sender_name()) {
        return if hit { RouteAnswer::drop() } else { RouteAnswer::abstain() }.rule(4);
    }
    match verb {
        "show" => RouteAnswer::abstain().rule(1).reason(show_route(&f, operand)),
        "data" => RouteAnswer::abstain().rule(3).reason(datum(&f, operand)),
        "agent" => RouteAnswer::agent(operand).rule(5).reason(f.sender_name()),
        "drop" => RouteAnswer::drop().rule(5).reason(operand),
        "abstain" => RouteAnswer::abstain().rule(5).reason(operand),
        "has" => RouteAnswer::abstain().rule(7).reason(has(&f, operand)),
        "rule" => RouteAnswer::abstain().rule(operand.parse().unwrap_or(0)),
        _ => route_rules(&f),
    }
}

fn out_of_hours(f: &Facts<'_>) -> bool {
    matches!(f.weekday(), 0 | 6) || !(540..1020).contains(&f.minute_of_day())
}

fn route_rules<'a>(f: &RouteFacts<'a>) -> RouteAnswer<'a> {
    if f.sender_roles().contains("banned") {
        return RouteAnswer::drop().rule(10).reason("banned on the platform");
    }
    if f.edited() && !f.mentioned() {
        return RouteAnswer::drop().rule(11).reason("an edit that calls nobody");
    }
    if f.attachment_types().any_starts_with("application/x-") {
        return RouteAnswer::agent("ops").rule(12).reason("an attachment to look at");
    }
    if used(f) || f.session_age() > 86_400 {
        return RouteAnswer::agent("frugal").rule(13).reason("a session that has used much");
    }
    if f.conversation_kind() == "thread" && f.parent() == "c-ops" {
        return RouteAnswer::agent("ops").rule(14).reason("a thread of ops");
    }
    if f.role() == "owner" && matches!(f.door(), "web" | "terminal") {
        return RouteAnswer::agent("coder").rule(15).reason("the owner's own frontend");
    }
    if f.role() == "guest" && out_of_hours(f) {
        return RouteAnswer::agent("night").rule(16).reason("out of hours");
    }
    if glob("*@example.com", f.account()) {
        return RouteAnswer::agent("staff").rule(17).reason("an account of the house");
    }
    if f.turns() >= 10 {
        return RouteAnswer::agent("fresh").rule(18).reason("a long session");
    }
    if !f.addressed() {
        return RouteAnswer::drop().rule(19).reason("nobody called");
    }
    RouteAnswer::abstain()
}

fn restrict(f: ToolFacts<'_>) -> Restriction<'_> {
    let (verb, operand) = split(f.arg_text("/ask").unwrap_or(""));
    if let Some(hit) = matches(verb, operand, f.arg_text("/subject").unwrap_or("")) {
        return Restriction { deny: hit, ..Restriction::none().rule(4) };
    }
    match verb {
        "show" => Restriction::none().rule(1).reason(show_tool(&f, operand)),
        "arg" => Restriction::none().rule(2).reason(show_arg(&f, operand)),
        "data" => Restriction::none().rule(3).reason(datum(&f, operand)),
        "restrict" => restricted(&f, operand),
        "has" => Restriction::none().rule(7).reason(has(&f, operand)),
        "rule" => Restriction::none().rule(operand.parse().unwrap_or(0)),
        _ => tool_rules(&f),
    }
}

fn show_arg<'a>(f: &ToolFacts<'a>, pointer: &str) -> &'a str {
    let kind = match f.arg_kind(pointer) {
        Kind::Absent => "absent:",
        Kind::Null => "null:",
        Kind::Bool => "bool:",
        Kind::Number => "number:",
        Kind::String => "string:",
        Kind::Array => "array:",
        Kind::Object => "object:",
    };
    f.concat(&[kind, f.arg(pointer).unwrap_or("")])
}

fn restricted<'a>(f: &ToolFacts<'a>, words: &'a str) -> Restriction<'a> {
    let r = Restriction::none().rule(6).reason(f.arg_text("/reason").unwrap_or(""));
    words.split(' ').fold(r, |r, word| match word.split_once('=').unwrap_or((word, "")) {
        ("deny", _) => r.deny(),
        ("ask", _) => r.ask(),
        ("sandbox", name) => r.sandbox_named(name),
        _ => r,
    })
}

fn tool_rules<'a>(f: &ToolFacts<'a>) -> Restriction<'a> {
    let text_at = |pointer, matches: fn(&str, &str) -> bool, pattern| f.arg_text(pointer).map_or(false, |s| matches(pattern, s));
    let (none, executes) = (Restriction::none(), f.effect() == "execute");
    let (deny, ask, strict) = (none.deny(), none.ask(), none.sandbox_named("strict"));
    #[rustfmt::skip]
    let rules = [
        (20, f.agent() == "intern" && f.effect() != "read", deny, "interns only read"),
        (21, executes && f.labels().any_starts_with("web:"), ask, "after the web a person looks at commands"),
        (22, executes && !f.sandboxed(), strict, "commands run in a sandbox"),
        (23, f.calls_in_turn() >= 20, ask, "many calls in one turn"),
        (24, text_at("/path", glob, "/etc/*"), deny, "not the machine's settings"),
        (25, f.effect() == "network" && !text_at("/host", domain, "example.com"), ask, "a host that nobody knows"),
        (26, text_at("/addr", cidr, "10.0.0.0/8"), deny, "inside the house"),
        (27, f.tool() == "process.kill" && f.role() != "owner", deny, "only the owner kills"),
        (28, used(f), ask, "a session that has used much"),
        (29, f.arg_text("/items/1/name") == Some("secret"), deny, "the second item is secret"),
        (30, f.arg_kind("/force") == Kind::Bool && f.arg("/force") == Some("true"), ask, "by force"),
        (31, f.sender_roles().contains("muted"), deny, "muted on the platform"),
        (32, f.edited(), ask, "the message was changed"),
    ];
    rules.iter().fold(none, |all, (number, hit, demand, reason)| {
        trace(*number, *hit);
        if *hit {
            all.join(demand.rule(*number).reason(reason))
        } else {
            all
        }
    })
}
