//! Command-allow-list lets only the commands of a list run.
//!
//! | Rule | Tool call | Answer |
//! | --- | --- | --- |
//! | 1 | a line of the list fits the command | what the line says |
//! | 2 | no line does | `otherwise` |
//! | 3 | the command is not one simple command | `unreadable` |
//! | 4 | another tool that executes | `other_tools` |
//! | 5 | the working directory is none of `cwd` | `otherwise` |
//!
//! A value of the configuration that makes no sense fails the policy, which denies the call.
#![no_std]
#![forbid(unsafe_code)]

use flynn::{trace, Facts, Kind, Restriction, ToolFacts};

mod rules;
mod words;

use rules::{fits, Action, Rule};
use words::Words;

const LISTED: u32 = 1;
const UNLISTED: u32 = 2;
const UNREADABLE: u32 = 3;
const OTHER_TOOL: u32 = 4;
const ELSEWHERE: u32 = 5;

type Answer<'a> = Result<Restriction<'a>, &'static str>;

flynn::tool!(restrict);

fn restrict(f: ToolFacts<'_>) -> Answer<'_> {
    if listed(setting(&f, "shell_tools", "shell.exec process.start"), f.tool()) {
        return command(&f);
    }
    let other = f.effect() == "execute";
    trace(OTHER_TOOL, other);
    if !other {
        return Ok(Restriction::none());
    }
    configured(&f, "other_tools", OTHER_TOOL, f.concat(&["only commands of the list run, and no ", f.tool()]))
}

/// Judges a tool that hands a command line to a shell.
fn command<'a>(f: &ToolFacts<'a>) -> Answer<'a> {
    let pointer = setting(f, "command_pointer", "/command");
    let line = match f.arg_text(pointer) {
        Some(line) => line,
        None => return unreadable(f, f.concat(&[pointer, " is no string"])),
    };
    if let Some(answer) = elsewhere(f) {
        return answer;
    }
    match Words::read(f, line) {
        Ok(words) => by_the_list(f, &words),
        Err(why) => unreadable(f, why),
    }
}

fn unreadable<'a>(f: &Facts<'a>, why: &str) -> Answer<'a> {
    trace(UNREADABLE, true);
    configured(f, "unreadable", UNREADABLE, f.concat(&["not one simple command: ", why]))
}

/// The answer to a working directory that is not allowed. One that is left out is the workspace.
fn elsewhere<'a>(f: &ToolFacts<'a>) -> Option<Answer<'a>> {
    let allowed = f.data("cwd")?;
    let pointer = setting(f, "cwd_pointer", "/cwd");
    let inside = match f.arg_kind(pointer) {
        Kind::Absent => true,
        Kind::String => f.arg(pointer).map_or(false, |dir| allowed.split_ascii_whitespace().any(|pattern| fits(pattern, dir))),
        _ => false,
    };
    trace(ELSEWHERE, !inside);
    if inside {
        return None;
    }
    Some(configured(f, "otherwise", ELSEWHERE, "not in this folder"))
}

/// Finds the first line that fits. All lines are read, so that a slip of the pen in any of them shows at once.
fn by_the_list<'a>(f: &ToolFacts<'a>, words: &Words<'a>) -> Answer<'a> {
    let list = f.data("commands").ok_or("commands is not set")?;
    let mut first = None;
    for (number, line) in (1..).zip(list.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let rule = Rule::parse(line)?;
        if first.is_none() && rule.concerns(f.role(), f.agent()) && rule.allows(words) {
            first = Some((number, rule.action));
        }
    }
    trace(LISTED, first.is_some());
    trace(UNLISTED, first.is_none());
    match first {
        Some((number, action)) => {
            Ok(demand(f, action).rule(LISTED).reason(f.concat(&["line ", f.decimal(number), " of the list"])))
        }
        None => configured(f, "otherwise", UNLISTED, f.concat(&["the list has no such command: ", words.program()])),
    }
}

/// What a key of the configuration demands: deny when it is left out.
fn configured<'a>(f: &Facts<'a>, key: &str, rule: u32, reason: &'a str) -> Answer<'a> {
    let action = Action::named(setting(f, key, "deny")).ok_or("an answer is allow, ask, sandbox or deny")?;
    Ok(demand(f, action).rule(rule).reason(reason))
}

fn demand<'a>(f: &Facts<'a>, action: Action) -> Restriction<'a> {
    match action {
        Action::Allow => Restriction::none(),
        Action::Ask => Restriction::none().ask(),
        Action::Deny => Restriction::none().deny(),
        Action::Sandbox => Restriction::none().sandbox_named(f.data("sandbox").unwrap_or("")),
    }
}

fn setting<'a>(f: &Facts<'a>, key: &str, default: &'a str) -> &'a str {
    f.data(key).unwrap_or(default)
}

fn listed(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|w| w == word)
}
