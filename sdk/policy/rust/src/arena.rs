//! Holds what a hook reads lazily from the host, and what it makes up, until it returns.

use core::fmt::{self, Write};

use crate::frame::text;
use crate::output::copy;

#[cfg(not(target_arch = "wasm32"))]
use native as block;
#[cfg(target_arch = "wasm32")]
use wasm as block;

#[cfg(target_arch = "wasm32")]
pub(crate) use wasm::reset;

/// Asks the host to fill the free part of the block, and again with more room when that was too little.
pub(crate) fn read<'a>(fill: impl Fn(&mut [u8]) -> i32) -> Option<&'a str> {
    let mut room = block::room(0);
    let mut n = usize::try_from(fill(room)).ok()?;
    if n > room.len() {
        room = block::room(n);
        n = usize::try_from(fill(room)).ok()?;
    }
    let kept = room.get(..n)?;
    block::keep(n);
    Some(text(kept))
}

/// Joins texts.
pub(crate) fn concat<'a>(parts: &[&str]) -> &'a str {
    let mut w = Writer::new(parts.iter().map(|p| p.len()).sum());
    for p in parts {
        w.push(p);
    }
    w.done()
}

/// Formats a text. It is done twice, because what is formatted may itself need memory here.
pub(crate) fn format<'a>(args: fmt::Arguments<'_>) -> &'a str {
    let mut length = Length(0);
    let _ = length.write_fmt(args);
    let mut w = Writer::new(length.0);
    let _ = w.write_fmt(args);
    w.done()
}

/// Writes a number out.
pub(crate) fn decimal<'a>(v: i64) -> &'a str {
    let (mut digits, mut first, mut rest) = ([0; 20], 20, v.unsigned_abs());
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        first = at;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    concat(&[if v < 0 { "-" } else { "" }, text(digits.get(first..).unwrap_or(&[]))])
}

/// Counts what would be written.
struct Length(usize);

impl fmt::Write for Length {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0 += s.len();
        Ok(())
    }
}

/// Writes into memory that it has set aside. What does not fit is left out, from the first text on that does not.
struct Writer<'a> {
    to: &'a mut [u8],
    used: usize,
    full: bool,
}

impl<'a> Writer<'a> {
    fn new(size: usize) -> Writer<'a> {
        let to = block::room(size).get_mut(..size).unwrap_or(&mut []);
        block::keep(to.len());
        Writer { to, used: 0, full: false }
    }

    fn push(&mut self, s: &str) {
        if !self.full && copy(self.to, self.used, s.as_bytes()) {
            self.used += s.len();
        } else {
            self.full = true;
        }
    }

    fn done(self) -> &'a str {
        text(self.to.get(..self.used).unwrap_or(&[]))
    }
}

impl fmt::Write for Writer<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push(s);
        Ok(())
    }
}

/// One block that is used from its beginning in every decision. A larger one takes its place when it is full; views of the
/// earlier one stay valid, because memory is never given back.
#[cfg(target_arch = "wasm32")]
mod wasm {
    use crate::memory::{self, Global, Span};

    const FIRST: usize = 8 << 10;

    static FIRST_BLOCK: Global<[u8; FIRST]> = Global::new([0; FIRST]);

    struct Block {
        span: Span,
        used: usize,
    }

    static BLOCK: Global<Block> = Global::new(Block { span: Span { base: FIRST_BLOCK.get() as *mut u8, size: FIRST }, used: 0 });

    fn block() -> &'static mut Block {
        // SAFETY: one thread, and no caller keeps it while it calls another one.
        unsafe { &mut *BLOCK.get() }
    }

    /// Forgets everything. Only the beginning of a hook calls it, when all that was lent has ended.
    pub(crate) fn reset() {
        block().used = 0;
    }

    /// The free part of the block, at least so many bytes.
    pub(super) fn room<'a>(min: usize) -> &'a mut [u8] {
        let b = block();
        if b.span.size - b.used < min {
            match memory::grow(2 * b.span.size + min) {
                Some(span) => *b = Block { span, used: 0 },
                None => panic!("out of memory"),
            }
        }
        // SAFETY: the part behind used is lent to nobody, and the caller keeps what it writes before it asks again.
        unsafe { core::slice::from_raw_parts_mut(b.span.base.add(b.used), b.span.size - b.used) }
    }

    /// Sets the beginning of the free part aside.
    pub(super) fn keep(n: usize) {
        block().used += n;
    }
}

/// Tests are short: what they read is never given back.
#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::boxed::Box;
    use std::vec;

    pub(super) fn room<'a>(min: usize) -> &'a mut [u8] {
        Box::leak(vec![0; min.max(4 << 10)].into_boxed_slice())
    }

    pub(super) fn keep(_: usize) {}
}
