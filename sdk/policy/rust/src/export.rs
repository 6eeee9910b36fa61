//! The module's exports, and the region that frames and answers lie in.

use crate::arena;
use crate::memory::{self, Global, Span};
use crate::output::{self, Output};
use crate::{abi, RouteFacts, ToolFacts};

const FIRST: usize = 16 << 10;

/// Words, so that it is 8-aligned.
static FIRST_REGION: Global<[u64; FIRST / 8]> = Global::new([0; FIRST / 8]);

static REGION: Global<Span> = Global::new(Span { base: FIRST_REGION.get() as *mut u8, size: FIRST });

fn region() -> Span {
    // SAFETY: one thread; it is read whole and written whole.
    unsafe { *REGION.get() }
}

#[no_mangle]
extern "C" fn flynn_abi() -> u32 {
    abi::VERSION
}

#[no_mangle]
extern "C" fn flynn_buffer(min: u32) -> u32 {
    if min as usize > region().size {
        match memory::grow(min as usize) {
            // SAFETY: one thread, and no hook runs.
            Some(span) => unsafe { *REGION.get() = span },
            None => return 0,
        }
    }
    region().base as u32
}

/// Answers the routing frame in the region.
#[inline]
pub fn route(len: u32, hook: impl FnOnce(RouteFacts<'_>) -> Output) -> i64 {
    arena::reset();
    publish(RouteFacts::read(frame(len)).map_or(Output::FAILED, hook))
}

/// Answers the tool frame in the region.
#[inline]
pub fn tool(len: u32, hook: impl FnOnce(ToolFacts<'_>) -> Output) -> i64 {
    arena::reset();
    publish(ToolFacts::read(frame(len)).map_or(Output::FAILED, hook))
}

/// The host's frame. It lasts until the answer is published, which takes its place.
fn frame<'a>(len: u32) -> &'a [u8] {
    let r = region();
    // SAFETY: the region is as long as its span says, and nobody writes to it while facts are lent: hooks are
    // closed over their lifetime, and write into scratch.
    unsafe { core::slice::from_raw_parts(r.base, r.size.min(len as usize)) }
}

/// Puts the output frame that belongs to the answer at the start of the region.
fn publish(answer: Output) -> i64 {
    let n = ((answer.result >> 32) as usize).min(output::MAX);
    if n > 0 {
        // SAFETY: the hook has returned, so that no facts are lent. Both are longer than any output, and apart.
        unsafe { core::ptr::copy_nonoverlapping(output::scratch().as_ptr(), region().base, n) };
    }
    answer.result
}
