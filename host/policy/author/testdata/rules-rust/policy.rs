//! Twenty rules, first match on channel and the beginning of the sender.
#![no_std]
#![forbid(unsafe_code)]

use flynn::{RouteAnswer, RouteFacts};

flynn::route!(route);

/// A channel, the beginning of a sender, and the agent of both.
type Rule = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
static RULES: [Rule; 20] = [
    ("telegram", "telegram:100", "agent-01"), ("telegram", "telegram:101", "agent-02"), ("telegram", "telegram:102", "agent-03"),
    ("telegram", "telegram:2", "agent-04"), ("discord", "discord:3000", "agent-05"), ("discord", "discord:3001", "agent-06"),
    ("discord", "discord:31", "agent-07"), ("discord", "discord:4", "agent-08"), ("slack", "slack:U00", "agent-09"),
    ("slack", "slack:U01", "agent-10"), ("slack", "slack:U02", "agent-11"), ("slack", "slack:W", "agent-12"),
    ("irc", "irc:al", "agent-13"), ("irc", "irc:bo", "agent-14"), ("irc", "irc:ca", "agent-15"), ("irc", "irc:da", "agent-16"),
    ("whatsapp", "whatsapp:+49", "agent-17"), ("whatsapp", "whatsapp:+33", "agent-18"), ("web", "web:", "agent-19"),
    ("matrix", "matrix:@", "agent-20"),
];

fn route(f: RouteFacts<'_>) -> RouteAnswer<'_> {
    let (channel, sender) = (f.channel(), f.sender());
    for (number, (its, prefix, agent)) in (1..).zip(&RULES) {
        if *its == channel && sender.starts_with(prefix) {
            return RouteAnswer::agent(agent).rule(number);
        }
    }
    RouteAnswer::abstain()
}
