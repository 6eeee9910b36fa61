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

    /// The length of the output frame.
    pub(crate) fn len(self) -> usize {
        (self.result >> 32) as usize
    }
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
    let end = (abi::HEADER_SIZE + abi::ENTRY_SIZE * entries as u32) as usize;
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
    &s[..n]
}

struct Writer<'a> {
    frame: &'a mut [u8; MAX],
    entries: u32,
    end: usize,
}

impl Writer<'_> {
    fn word(&mut self, at: u32, v: u32) {
        let at = at as usize;
        self.frame[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }

    fn put(&mut self, id: u32, s: &str) {
        if s.is_empty() {
            return;
        }
        let entry = abi::HEADER_SIZE + self.entries * abi::ENTRY_SIZE;
        self.word(entry, id | abi::TYPE_STRING << 16);
        self.word(entry + 4, self.end as u32);
        self.word(entry + 8, s.len() as u32);
        self.frame[self.end..self.end + s.len()].copy_from_slice(s.as_bytes());
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
