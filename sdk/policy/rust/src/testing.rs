//! Frames and a stand-in for the host, for unit tests of policies on the machine you sit at.
//!
//! ```ignore
//! let frame = Frame::route().text(abi::ROLE, "owner").bytes();
//! let answer = Host::new().data("agent", "coder").run(|| route(RouteFacts::read(&frame).unwrap()));
//! ```

use core::cell::RefCell;
use std::string::String;
use std::thread_local;
use std::vec::Vec;

use crate::abi;
use crate::host::Kind;

/// Makes a frame. Fields are to be added in any order, each once.
pub struct Frame {
    kind: u32,
    fields: Vec<(u32, u32, Vec<u8>)>,
}

impl Frame {
    /// Begins a frame of a routing decision.
    pub fn route() -> Frame {
        Frame { kind: abi::FRAME_ROUTE, fields: Vec::new() }
    }

    /// Begins a frame of a tool decision.
    pub fn tool() -> Frame {
        Frame { kind: abi::FRAME_TOOL, fields: Vec::new() }
    }

    fn add(mut self, id: u32, kind: u32, value: &[u8]) -> Frame {
        self.fields.push((id, kind, value.to_vec()));
        self
    }

    /// Adds a text: `abi::ROLE`.
    pub fn text(self, id: u32, v: &str) -> Frame {
        self.add(id, abi::TYPE_STRING, v.as_bytes())
    }

    /// Adds a number: `abi::TURNS`.
    pub fn int(self, id: u32, v: i64) -> Frame {
        self.add(id, abi::TYPE_INT, &v.to_le_bytes())
    }

    /// Adds a truth: `abi::ADDRESSED`.
    pub fn boolean(self, id: u32, v: bool) -> Frame {
        self.add(id, abi::TYPE_BOOL, &[v as u8])
    }

    /// Adds a list: `abi::LABELS`.
    pub fn list(self, id: u32, items: &[&str]) -> Frame {
        let mut v = Vec::new();
        for item in items {
            v.extend((item.len() as u32).to_le_bytes());
            v.extend(item.as_bytes());
        }
        self.add(id, abi::TYPE_LIST, &v)
    }

    /// The frame as the host would write it.
    pub fn bytes(mut self) -> Vec<u8> {
        self.fields.sort_by_key(|f| f.0);
        let (mut table, mut values) = (Vec::<u8>::new(), Vec::<u8>::new());
        let begin = abi::HEADER_SIZE as usize + abi::ENTRY_SIZE as usize * self.fields.len();
        for (id, kind, value) in &self.fields {
            table.extend((id | kind << 16).to_le_bytes());
            table.extend(((begin + values.len()) as u32).to_le_bytes());
            table.extend((value.len() as u32).to_le_bytes());
            values.extend(value);
        }
        let mut frame = Vec::new();
        for word in [abi::MAGIC, self.kind | (self.fields.len() as u32) << 16, (begin + values.len()) as u32, 0] {
            frame.extend(word.to_le_bytes());
        }
        frame.extend(table);
        frame.extend(values);
        frame
    }
}

/// Stands in for Flynn. A new one has no data, no arguments and refuses every pattern.
#[derive(Clone, Default)]
pub struct Host {
    text: String,
    data: Vec<(String, String)>,
    args: Vec<(String, u32, String)>,
    matching: Option<fn(&str, &str) -> bool>,
}

thread_local! {
    static CURRENT: RefCell<Host> = RefCell::new(Host::default());
    static NOTED: RefCell<Vec<String>> = RefCell::new(Vec::new());
}

impl Host {
    /// A host without anything.
    pub fn new() -> Host {
        Host::default()
    }

    /// Sets the whole text of the message.
    pub fn text(mut self, text: &str) -> Host {
        self.text = text.into();
        self
    }

    /// Adds one value of the policy's data.
    pub fn data(mut self, key: &str, value: &str) -> Host {
        self.data.push((key.into(), value.into()));
        self
    }

    /// Adds a string to the tool's arguments.
    pub fn arg(self, pointer: &str, value: &str) -> Host {
        self.arg_json(pointer, Kind::String, value)
    }

    /// Adds any other value, as its JSON text.
    pub fn arg_json(mut self, pointer: &str, kind: Kind, json: &str) -> Host {
        self.args.push((pointer.into(), kind as u32, json.into()));
        self
    }

    /// Answers every match: a function of the pattern and the text.
    pub fn matching(mut self, f: fn(&str, &str) -> bool) -> Host {
        self.matching = Some(f);
        self
    }

    /// Runs f with this host, on this thread.
    pub fn run<T>(self, f: impl FnOnce() -> T) -> T {
        let before = CURRENT.with(|h| h.replace(self));
        let result = f();
        CURRENT.with(|h| h.replace(before));
        result
    }
}

/// What the policy has traced and logged on this thread since the last call: "rule 3 hit", "3 a line".
pub fn noted() -> Vec<String> {
    NOTED.with(|n| n.take())
}

/// The imports, natively.
pub(crate) mod calls {
    use std::format;
    use std::string::String;

    use super::{Host, CURRENT, NOTED};
    use crate::abi;

    fn give(room: &mut [u8], value: Option<&str>) -> i32 {
        let v = match value {
            Some(v) => v.as_bytes(),
            None => return -1,
        };
        if let Some(at) = room.get_mut(..v.len()) {
            at.copy_from_slice(v);
        }
        v.len() as i32
    }

    fn current<T>(f: impl FnOnce(&Host) -> T) -> T {
        CURRENT.with(|h| f(&h.borrow()))
    }

    fn note(line: String) {
        NOTED.with(|n| n.borrow_mut().push(line))
    }

    pub(crate) fn get(field: u32, index: u32, room: &mut [u8]) -> i32 {
        current(|h| give(room, if field == abi::TEXT && index == 0 { Some(&h.text) } else { None }))
    }

    pub(crate) fn arg(pointer: &str, room: &mut [u8]) -> i32 {
        current(|h| give(room, h.args.iter().find(|a| a.0 == pointer).map(|a| a.2.as_str())))
    }

    pub(crate) fn arg_kind(pointer: &str) -> i32 {
        current(|h| h.args.iter().find(|a| a.0 == pointer).map_or(0, |a| a.1 as i32))
    }

    pub(crate) fn data(key: &str, room: &mut [u8]) -> i32 {
        current(|h| give(room, h.data.iter().find(|d| d.0 == key).map(|d| d.1.as_str())))
    }

    pub(crate) fn matches(_: u32, pattern: &str, s: &str) -> i32 {
        current(|h| h.matching.map_or(-1, |f| f(pattern, s) as i32))
    }

    pub(crate) fn trace(rule: u32, hit: u32) {
        note(format!("rule {} {}", rule, if hit == 1 { "hit" } else { "miss" }))
    }

    pub(crate) fn log(level: u32, text: &str) {
        note(format!("{} {}", level, text))
    }
}
