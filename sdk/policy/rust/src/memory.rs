//! The module's own memory. A policy is one instance with one thread, and nothing of it calls back into the module.

use core::arch::wasm32::memory_grow;
use core::cell::UnsafeCell;

/// The size of a page, by which memory grows.
const PAGE: usize = 64 << 10;

/// A variable of the module.
pub(crate) struct Global<T>(pub(crate) UnsafeCell<T>);

// SAFETY: there is one thread.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    pub(crate) const fn new(value: T) -> Global<T> {
        Global(UnsafeCell::new(value))
    }

    pub(crate) const fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// A run of bytes that belongs to whoever asked for it.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) base: *mut u8,
    pub(crate) size: usize,
}

/// Memory that nobody has had, at least so many bytes of it; `None` where the host gives no more.
pub(crate) fn grow(min: usize) -> Option<Span> {
    let pages = min / PAGE + 1;
    match memory_grow(0, pages) {
        usize::MAX => None,
        old => Some(Span { base: (old * PAGE) as *mut u8, size: pages * PAGE }),
    }
}
