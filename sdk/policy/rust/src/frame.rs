//! Reads the host's table of facts. Every offset is checked when it is used: a wrong frame has missing facts, and never a read
//! outside of it.

use crate::abi::{ENTRY_SIZE, HEADER_SIZE, MAGIC};

/// A frame of facts. The empty one has none.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    bytes: &'a [u8],
    count: u32,
}

/// Finds a field whatever its type is.
pub(crate) const ANY_TYPE: u32 = 0;

/// The little-endian word at an offset, 0 beyond the end.
pub(crate) fn load(bytes: &[u8], at: u32) -> u32 {
    let at = at as usize;
    match bytes.get(at..at.wrapping_add(4)) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    }
}

impl<'a> Frame<'a> {
    /// Accepts the bytes as a frame of the given kind.
    pub(crate) fn open(bytes: &'a [u8], kind: u32) -> Option<Frame<'a>> {
        if bytes.len() < HEADER_SIZE as usize || load(bytes, 0) != MAGIC {
            return None;
        }
        let head = load(bytes, 4);
        let (count, total) = (head >> 16, load(bytes, 8));
        if head & 0xffff != kind || HEADER_SIZE + count * ENTRY_SIZE > total {
            return None;
        }
        Some(Frame { bytes: bytes.get(..total as usize)?, count })
    }

    /// A word of the table.
    #[inline]
    fn word(&self, at: u32) -> u32 {
        // SAFETY: open saw to it that the whole table lies in the bytes.
        u32::from_le(unsafe { self.bytes.as_ptr().add(at as usize).cast::<u32>().read_unaligned() })
    }

    /// The value of a field of the given type.
    ///
    /// Ids are sorted, unique and start at 1, so that id n cannot stand behind entry n: the search begins there and goes
    /// backwards, and finds a field of a full frame at once.
    pub(crate) fn find(&self, id: u32, kind: u32) -> Option<&'a [u8]> {
        let mut entry = HEADER_SIZE + id.min(self.count) * ENTRY_SIZE;
        while entry > HEADER_SIZE {
            entry -= ENTRY_SIZE;
            let head = self.word(entry);
            if head & 0xffff > id {
                continue;
            }
            if head & 0xffff != id || (kind != ANY_TYPE && head >> 16 != kind) {
                return None;
            }
            let (at, n) = (self.word(entry + 4) as usize, self.word(entry + 8) as usize);
            return self.bytes.get(at..)?.get(..n);
        }
        None
    }
}

/// The bytes as a text. What is no UTF-8 reads as empty, like everything else that is wrong with a frame.
pub(crate) fn text(bytes: &[u8]) -> &str {
    if is_ascii(bytes) {
        // SAFETY: ASCII is UTF-8.
        return unsafe { core::str::from_utf8_unchecked(bytes) };
    }
    core::str::from_utf8(bytes).unwrap_or("")
}

/// Most texts are short and plain, which is seen in two steps, of which the second sees some bytes a second time. Longer ones take a step
/// for eight bytes.
fn is_ascii(bytes: &[u8]) -> bool {
    let eight = |at: &[u8]| at.try_into().map_or(0, u64::from_le_bytes) & 0x8080_8080_8080_8080;
    let four = |at: &[u8]| at.try_into().map_or(0, u32::from_le_bytes) & 0x8080_8080;
    match bytes.len() {
        0..=3 => bytes.iter().fold(0, |all, b| all | b) < 0x80,
        n @ 4..=7 => bytes.get(..4).map_or(0, four) | bytes.get(n - 4..).map_or(0, four) == 0,
        n @ 8..=16 => bytes.get(..8).map_or(0, eight) | bytes.get(n - 8..).map_or(0, eight) == 0,
        n => bytes.chunks_exact(8).fold(bytes.get(n - 8..).map_or(0, eight), |all, at| all | eight(at)) == 0,
    }
}
