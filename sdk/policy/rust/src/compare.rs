//! Comparison of texts, by words. The compiler turns what policies do most, `==` and `starts_with`, into calls of `memcmp`, and its own goes
//! byte by byte, each of which is a basic block with its charge of fuel.

#[cfg(target_arch = "wasm32")]
#[no_mangle]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    compare(a, b, n)
}

/// Below, above or equal to 0 as the first byte that differs says.
///
/// # Safety
///
/// Both must have n bytes.
#[inline]
pub(crate) unsafe fn compare(a: *const u8, b: *const u8, n: usize) -> i32 {
    if n > 8 {
        // Not a turn of the loop: each of those is checked for fuel, and most texts end here.
        let (x, y) = (eight(a), eight(b));
        if x != y {
            return order(x, y);
        }
        let mut at = 8;
        while n - at > 8 {
            let (x, y) = (eight(a.add(at)), eight(b.add(at)));
            if x != y {
                return order(x, y);
            }
            at += 8;
        }
    }
    order(last(a, n), last(b, n))
}

/// The last eight of n bytes, or all of fewer; some of them twice, and the first of them lowest.
#[inline]
unsafe fn last(p: *const u8, n: usize) -> u64 {
    match n {
        8.. => eight(p.add(n - 8)),
        4.. => four(p) | four(p.add(n - 4)) << 32,
        1.. => *p as u64 | (*p.add(n / 2) as u64) << 8 | (*p.add(n - 1) as u64) << 16,
        _ => 0,
    }
}

#[inline]
unsafe fn eight(p: *const u8) -> u64 {
    u64::from_le(p.cast::<u64>().read_unaligned())
}

#[inline]
unsafe fn four(p: *const u8) -> u64 {
    u32::from_le(p.cast::<u32>().read_unaligned()) as u64
}

/// Compares by the lowest byte that differs, and equal ones by any.
#[inline]
fn order(x: u64, y: u64) -> i32 {
    let at = (x ^ y).trailing_zeros() & 56;
    (x >> at & 0xff) as i32 - (y >> at & 0xff) as i32
}
