//! Cuts a command line into words, where every shell would make the same words of it.
//!
//! It knows blanks, single and double quotes, and nothing else. What a shell would expand, run, redirect or join is
//! refused: the list is about the words that the program gets, and those have to stand in the command as they are.

use flynn::Facts;

const MOST_WORDS: usize = 64;
const MOST_PARTS: usize = 16;

/// The words of a simple command, without their quotes. There is at least one.
pub struct Words<'a> {
    words: [&'a str; MOST_WORDS],
    count: usize,
}

impl<'a> Words<'a> {
    /// Reads a command line, or says why it cannot.
    pub fn read(f: &Facts<'a>, line: &'a str) -> Result<Words<'a>, &'static str> {
        let mut all = Words { words: [""; MOST_WORDS], count: 0 };
        let mut rest = line.trim_end_matches(|c| blank(c) || c == '\n').trim_start_matches(blank);
        while !rest.is_empty() {
            let (word, behind) = word(f, rest)?;
            *all.words.get_mut(all.count).ok_or("more than 64 words")? = word;
            all.count += 1;
            rest = behind.trim_start_matches(blank);
        }
        match all.program() {
            "" => Err("no program"),
            program if program.contains('=') => Err("an assignment in place of a program"),
            _ => Ok(all),
        }
    }

    /// The first word.
    pub fn program(&self) -> &'a str {
        self.iter().next().unwrap_or("")
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.words.iter().take(self.count).copied()
    }
}

fn blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// Reads one word: parts with and without quotes that stand together. It returns what lies behind it, too.
fn word<'a>(f: &Facts<'a>, line: &'a str) -> Result<(&'a str, &'a str), &'static str> {
    if line.starts_with('=') {
        return Err("an equals sign in front of a word"); // zsh makes a path of it
    }
    let (mut parts, mut count, mut rest) = ([""; MOST_PARTS], 0, line);
    while let Some(c) = rest.chars().next().filter(|c| !blank(*c)) {
        let (part, behind) = match c {
            '\'' => quoted(rest, '\'', |_| None)?,
            '"' => quoted(rest, '"', expanded)?,
            _ => plain(rest)?,
        };
        *parts.get_mut(count).ok_or("a word of more than 16 parts")? = part;
        count += 1;
        rest = behind;
    }
    match parts {
        [whole, ..] if count == 1 => Ok((whole, rest)),
        _ => Ok((f.concat(&parts), rest)),
    }
}

/// Reads up to the closing quote. What is special inside is refused, and so is what no terminal shows.
fn quoted<'a>(s: &'a str, quote: char, special: fn(char) -> Option<&'static str>) -> Result<(&'a str, &'a str), &'static str> {
    let (inside, behind) = s.strip_prefix(quote).and_then(|s| s.split_once(quote)).ok_or("a quote without an end")?;
    match inside.chars().find_map(|c| if c.is_control() { Some("a control character") } else { special(c) }) {
        Some(why) => Err(why),
        None => Ok((inside, behind)),
    }
}

/// What double quotes do not protect from.
fn expanded(c: char) -> Option<&'static str> {
    match c {
        '$' => Some("$ in double quotes"),
        '`' => Some("a command substitution"),
        '\\' => Some("a backslash in double quotes"),
        _ => None,
    }
}

/// Reads the characters that mean themselves wherever they stand in a word.
fn plain(s: &str) -> Result<(&str, &str), &'static str> {
    let end = s.find(|c| blank(c) || c == '\'' || c == '"').unwrap_or(s.len());
    let (part, behind) = (s.get(..end).unwrap_or(""), s.get(end..).unwrap_or(""));
    match part.chars().find_map(meaning) {
        Some(why) => Err(why),
        None => Ok((part, behind)),
    }
}

/// What an unquoted character means to one shell or another, `None` when it means itself to all.
fn meaning(c: char) -> Option<&'static str> {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.' | '/' | ':' | ',' | '+' | '@' | '%' | '=' => None,
        ';' | '&' | '|' | '\n' => Some("more than one command"),
        '(' | ')' => Some("a subshell"),
        '<' | '>' => Some("a redirection"),
        '$' | '`' => Some("an expansion"),
        '\\' => Some("a backslash outside quotes"),
        '*' | '?' | '[' | ']' | '{' | '}' | '^' => Some("a wildcard outside quotes"),
        '~' => Some("a tilde outside quotes"),
        '#' => Some("a comment"),
        '!' => Some("an exclamation mark outside quotes"),
        c if c.is_control() => Some("a control character"),
        _ => Some("an unusual character outside quotes"),
    }
}
