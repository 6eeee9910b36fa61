//! Output frames: the name and the reason of an answer.

use crate::abi;

/// The result of a hook: its number, and how long the output frame is that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    pub(crate) result: i64,
}

impl Output {
    /// An answer that the host takes as a failure of the policy.
    pub(crate) const FAILED: Output = Output { result: 0xff };
}

/// The largest output frame that the host accepts.
pub(crate) const MAX: usize = 8 << 10;

const LARGEST_RULE: u32 = (1 << 24) - 1;

/// Makes an answer with the texts that are not empty. A reason is cut to fit; a name that does not fit is an error.
pub(crate) fn write(verdict: u32, rule: u32, id: u32, name: &str, reason: &str) -> Output {
    let head = verdict as i64 | (rule.min(LARGEST_RULE) as i64) << 8;
    if name.is_empty() && reason.is_empty() {
        return Output { result: head };
    }
    let entries = !name.is_empty() as usize + !reason.is_empty() as usize;
    let end = abi::HEADER_SIZE as usize + abi::ENTRY_SIZE as usize * entries;
    if name.len() > MAX - end {
        return Output::FAILED;
    }
    let mut w = Writer { frame: scratch(), entries: 0, end };
    w.put(id, name);
    w.put(abi::OUT_REASON, cut(reason, MAX - w.end));
    Output { result: head | (w.finish() as i64) << 32 }
}

/// Shortens a text to at most n bytes without splitting a character.
fn cut(s: &str, n: usize) -> &str {
    if s.len() <= n {
        return s;
    }
    let mut n = n;
    while !s.is_char_boundary(n) {
        n -= 1;
    }
    s.get(..n).unwrap_or("")
}

/// Copies v to an offset, or tells that there is no room. A slice's own copy brings a panic, and its words, into the module.
pub(crate) fn copy(to: &mut [u8], at: usize, v: &[u8]) -> bool {
    match to.get_mut(at..).and_then(|rest| rest.get_mut(..v.len())) {
        // SAFETY: both are v.len() long, and apart, because one of them is borrowed mutably.
        Some(room) => unsafe { core::ptr::copy_nonoverlapping(v.as_ptr(), room.as_mut_ptr(), v.len()) },
        None => return false,
    }
    true
}

struct Writer<'a> {
    frame: &'a mut [u8; MAX],
    entries: u32,
    end: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, at: usize, v: &[u8]) {
        copy(self.frame, at, v);
    }

    fn word(&mut self, at: u32, v: u32) {
        self.bytes(at as usize, &v.to_le_bytes());
    }

    fn put(&mut self, id: u32, s: &str) {
        if s.is_empty() {
            return;
        }
        let entry = abi::HEADER_SIZE + self.entries * abi::ENTRY_SIZE;
        self.word(entry, id | abi::TYPE_STRING << 16);
        self.word(entry + 4, self.end as u32);
        self.word(entry + 8, s.len() as u32);
        self.bytes(self.end, s.as_bytes());
        self.entries += 1;
        self.end += s.len();
    }

    fn finish(mut self) -> usize {
        self.word(0, abi::MAGIC);
        self.word(4, abi::FRAME_OUTPUT | self.entries << 16);
        self.word(8, self.end as u32);
        self.word(12, 0);
        self.end
    }
}

/// Output frames are made here, because names and reasons are often views of the very region that they go to.
#[cfg(target_arch = "wasm32")]
static SCRATCH: crate::memory::Global<[u8; MAX]> = crate::memory::Global::new([0; MAX]);

#[cfg(target_arch = "wasm32")]
pub(crate) fn scratch<'a>() -> &'a mut [u8; MAX] {
    // SAFETY: one thread, and nobody keeps it while it calls another user of it.
    unsafe { &mut *SCRATCH.get() }
}

#[cfg(not(target_arch = "wasm32"))]
fn scratch<'a>() -> &'a mut [u8; MAX] {
    std::boxed::Box::leak(std::boxed::Box::new([0; MAX]))
}
