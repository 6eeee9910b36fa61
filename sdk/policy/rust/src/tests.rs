//! Unit tests of the SDK, run natively; the module itself is tested by Flynn's table of cases.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use crate::testing::{noted, Frame, Host};
use crate::*;

fn route_frame() -> Vec<u8> {
    Frame::route()
        .text(abi::CHANNEL, "irc")
        .text(abi::SENDER, "irc:böb")
        .text(abi::TEXT, "a text")
        .int(abi::TEXT_LEN, 11)
        .boolean(abi::ADDRESSED, true)
        .int(abi::SEED, i64::MIN)
        .list(abi::AGENTS, &["coder", "", "helper"])
        .bytes()
}

#[test]
fn facts_are_read() {
    let frame = route_frame();
    let f = RouteFacts::read(&frame).unwrap();
    assert_eq!((f.channel(), f.sender(), f.seed(), f.addressed()), ("irc", "irc:böb", i64::MIN, true));
    assert_eq!(f.agents().collect::<Vec<_>>(), ["coder", "", "helper"]);
    assert!(f.agents().contains("helper") && !f.agents().contains("help") && f.agents().any_starts_with("help"));
    assert_eq!((f.role(), f.turns(), f.edited(), f.labels().count()), ("", 0, false, 0));
    assert!(f.has(abi::SENDER) && !f.has(abi::ROLE) && !f.has(0) && !f.has(u32::MAX));
    assert!(ToolFacts::read(&frame).is_none());
}

#[test]
fn a_broken_frame_has_missing_facts() {
    let whole = route_frame();
    for at in 0..whole.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut frame = whole.clone();
            frame[at] = byte;
            if let Some(f) = RouteFacts::read(&frame) {
                let _ = (f.channel(), f.sender(), f.full_text(), f.seed(), f.agents().count(), f.labels().count());
            }
        }
        assert!(RouteFacts::read(&whole[..at]).is_none());
    }
}

#[test]
fn what_is_no_text_reads_as_empty() {
    let mut frame = Frame::route().text(abi::CHANNEL, "abcdefghij").bytes();
    let last = frame.len() - 1;
    frame[last] = 0xff;
    let f = RouteFacts::read(&frame).unwrap();
    assert_eq!((f.channel(), f.bytes(abi::CHANNEL).map(|b| b.len())), ("", Some(10)));
}

#[test]
fn texts_compare_by_words_as_by_bytes() {
    let a: Vec<u8> = (0..40).map(|n| n * 5 + 7).collect();
    for n in 0..=a.len() {
        for at in 0..a.len() {
            for byte in [0, a[at] - 1, a[at], a[at] + 1, 0xff] {
                let mut b = a.clone();
                b[at] = byte;
                let got = unsafe { crate::compare::compare(a.as_ptr(), b.as_ptr(), n) };
                assert_eq!(got.cmp(&0), a[..n].cmp(&b[..n]), "{} of {:?}", n, b);
            }
        }
    }
}

#[test]
fn one_odd_byte_is_seen_wherever_it_stands() {
    for n in 1..40 {
        for at in 0..n {
            let mut bytes = std::vec![b'a'; n];
            assert_eq!(frame::text(&bytes).len(), n);
            bytes[at] = 0x80;
            assert_eq!(frame::text(&bytes), "", "{} of {}", at, n);
        }
    }
}

#[test]
fn the_host_is_asked() {
    let frame = Frame::tool().text(abi::TEXT, "a text").int(abi::TEXT_LEN, 11).bytes();
    let f = ToolFacts::read(&frame).unwrap();
    let long = "é".repeat(5000);
    let host = Host::new().text("a text, all").data("key", &long).arg("/command", "ls").arg_json("/n", Kind::Number, "1.5");
    host.matching(|pattern, s| pattern == s).run(|| {
        assert_eq!(f.full_text(), "a text, all");
        assert_eq!((f.data("key"), f.data("none")), (Some(&long[..]), None));
        assert_eq!((f.arg("/command"), f.arg_kind("/command"), f.arg_text("/command")), (Some("ls"), Kind::String, Some("ls")));
        assert_eq!((f.arg("/n"), f.arg_kind("/n"), f.arg_text("/n")), (Some("1.5"), Kind::Number, None));
        assert_eq!((f.arg("/x"), f.arg_kind("/x")), (None, Kind::Absent));
        assert!(glob("a", "a") && !domain("a", "b"));
        trace(3, true);
        log(Level::Warn, "a line");
        assert_eq!(noted(), ["rule 3 hit", "2 a line"]);
    });
}

#[test]
#[should_panic]
fn a_bad_pattern_is_no_quiet_no() {
    re2("(", "x");
}

#[test]
fn texts_are_made() {
    let frame = Frame::tool().bytes();
    let f = ToolFacts::read(&frame).unwrap();
    assert_eq!(f.concat(&["a", "", "é"]), "aé");
    assert_eq!(f.concat(&[]), "");
    for v in [0, 7, -7, 1000, i64::MAX, i64::MIN] {
        assert_eq!(f.decimal(v), v.to_string());
        assert_eq!(f.format(format_args!("<{}>", v)), format!("<{}>", v));
    }
}

/// What an answer says, without the place where its texts lie.
fn verdict(output: output::Output) -> (u32, u32, usize) {
    let r = output.result;
    ((r & 0xff) as u32, (r >> 8 & 0xffffff) as u32, (r >> 32) as usize)
}

#[test]
fn answers_are_packed() {
    let entry = (abi::HEADER_SIZE + abi::ENTRY_SIZE) as usize;
    assert_eq!(verdict(RouteAnswer::abstain().output()), (abi::ROUTE_ABSTAIN, 0, 0));
    assert_eq!(verdict(RouteAnswer::agent("coder").rule(7).output()), (abi::ROUTE_AGENT, 7, entry + 5));
    assert_eq!(verdict(RouteAnswer::drop().rule(u32::MAX).output()), (abi::ROUTE_DROP, 0xffffff, 0));
    assert_eq!(verdict(RouteAnswer::agent("").output()), (0xff, 0, 0));
    assert_eq!(verdict(Restriction::none().deny().ask().output()), (abi::TOOL_DENY | abi::TOOL_ASK, 0, 0));
    let both = Restriction::none().sandbox_named("strict").reason("why");
    assert_eq!(verdict(both.output()), (abi::TOOL_SANDBOX, 0, entry + abi::ENTRY_SIZE as usize + 9));
    let long = "n".repeat(output::MAX);
    assert_eq!(verdict(RouteAnswer::agent(&long).output()), (0xff, 0, 0));
    let reason = String::from("x") + &"é".repeat(output::MAX);
    assert_eq!(verdict(RouteAnswer::drop().reason(&reason).output()).2, output::MAX - 1);
    assert_eq!(verdict(ToolResult::output(Err::<Restriction<'_>, _>("why"))), (0xff, 0, 0));
    assert_eq!(noted(), ["3 why"]);
}

#[test]
fn restrictions_are_joined() {
    let first = Restriction::none().ask().rule(1).reason("one");
    let all = first
        .join(Restriction::none().deny().sandbox_named("a").rule(2).reason("two"))
        .join(Restriction::none().sandbox_named("b"));
    assert!(all.ask && all.deny && all.sandbox);
    assert_eq!((all.rule, all.reason, all.sandbox_name), (1, "one", "a"));
    assert_eq!(Restriction::none().join(first), first);
}
