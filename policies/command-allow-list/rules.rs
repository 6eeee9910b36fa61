//! The lines of the list: "WHO [ACTION]: PROGRAM ITEM...".

use crate::words::Words;

/// What a line, or a key of the configuration, demands.
#[derive(Clone, Copy)]
pub enum Action {
    Allow,
    Ask,
    Sandbox,
    Deny,
}

impl Action {
    pub fn named(name: &str) -> Option<Action> {
        match name {
            "allow" => Some(Action::Allow),
            "ask" => Some(Action::Ask),
            "sandbox" => Some(Action::Sandbox),
            "deny" => Some(Action::Deny),
            _ => None,
        }
    }
}

/// One line of the list.
pub struct Rule<'a> {
    who: &'a str,
    pub action: Action,
    program: &'a str,
    items: &'a str,
}

/// Begins an item that allows a flag.
const FLAG: &str = "?-";

/// Ends the last item when it takes any number of arguments, none included.
const REPEATED: &str = "...";

impl<'a> Rule<'a> {
    pub fn parse(line: &'a str) -> Result<Rule<'a>, &'static str> {
        let (head, command) = line.split_once(':').ok_or("a line of commands is WHO: PROGRAM ARGUMENTS")?;
        let mut head = head.split_ascii_whitespace();
        let who = head.next().ok_or("a line of commands begins with the roles that it is for")?;
        let action = head.next().map_or(Some(Action::Allow), Action::named).ok_or("an action is allow, ask, sandbox or deny")?;
        if head.next().is_some() {
            return Err("in front of the colon of a line stand WHO and ACTION");
        }
        let command = command.trim_start();
        let (program, items) = command.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((command, ""));
        let rule = Rule { who, action, program, items };
        rule.check()?;
        Ok(rule)
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.program.is_empty() {
            return Err("a line of commands names no program");
        }
        if !self.people().all(|(role, agent)| matches!(role, "*" | "owner" | "member" | "guest") && !agent.is_empty()) {
            return Err("roles are owner, member, guest and *; behind @ stands an agent");
        }
        let mut operands = self.operands();
        if operands.any(|item| item.ends_with(REPEATED)) && operands.next().is_some() {
            return Err("... ends the last item of a line");
        }
        Ok(())
    }

    /// The roles that the line is for, each with the agent.
    fn people(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.who.split(',').map(|one| one.split_once('@').unwrap_or((one, "*")))
    }

    /// The items that stand for an argument at their place.
    fn operands(&self) -> impl Iterator<Item = &'a str> {
        self.items.split_ascii_whitespace().filter(|item| !item.starts_with(FLAG))
    }

    pub fn concerns(&self, role: &str, agent: &str) -> bool {
        self.people().any(|(r, a)| (r == "*" || r == role) && (a == "*" || a == agent))
    }

    /// Reports whether the line fits the whole command.
    pub fn allows(&self, words: &Words<'a>) -> bool {
        let mut words = words.iter();
        if !words.next().map_or(false, |program| fits(self.program, program)) {
            return false;
        }
        let (mut items, mut taken, mut flags_end) = (self.operands().peekable(), 0, false);
        while let Some(word) = words.next() {
            if !flags_end && is_flag(word) {
                match self.flag(word, taken) {
                    Some(None) => {
                        flags_end = word == "--";
                        continue;
                    }
                    Some(Some(value)) if words.next().map_or(false, |v| fits(value, v)) => continue,
                    Some(Some(_)) => return false,
                    None => {}
                }
            }
            let fit = match items.peek() {
                Some(item) if !flags_end && is_flag(word) != is_flag(item) => false,
                Some(item) => fits(item.strip_suffix(REPEATED).unwrap_or(item), word),
                None => false,
            };
            if !fit {
                return false;
            }
            if !items.peek().map_or(false, |item| item.ends_with(REPEATED)) {
                items.next();
                taken += 1;
            }
        }
        items.all(|item| item.ends_with(REPEATED))
    }

    /// Finds the item that allows a flag, among those that stand behind no operand that is still to come: in "git log ?-n" the
    /// flag is one of log's, and none of git's. Behind its colon stands what the flag's value, the next word, has to fit.
    fn flag(&self, word: &str, taken: usize) -> Option<Option<&'a str>> {
        let mut before = 0;
        for item in self.items.split_ascii_whitespace() {
            if !item.starts_with(FLAG) {
                before += 1;
                if before > taken && !item.ends_with(REPEATED) {
                    return None;
                }
                continue;
            }
            let flag = item.strip_prefix('?').unwrap_or(item);
            match flag.split_once(':') {
                Some((name, value)) if fits(name, word) => return Some(Some(value)),
                None if fits(flag, word) => return Some(None),
                _ => {}
            }
        }
        None
    }
}

/// A lone hyphen is a file's name.
fn is_flag(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// Reports whether the pattern takes the whole word. Most patterns are plain, and need no glob of the host. A glob takes no
/// step upwards that it does not have itself, so that src/* stays in src.
pub fn fits(pattern: &str, word: &str) -> bool {
    match pattern {
        "" | "*" => true,
        _ if !pattern.contains(|c| matches!(c, '*' | '?' | '[' | '{' | '!' | '#')) => pattern == word,
        _ => (!climbs(word) || climbs(pattern)) && flynn::glob(pattern, word),
    }
}

fn climbs(path: &str) -> bool {
    path.contains("../") || path.ends_with("..")
}
