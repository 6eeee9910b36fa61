//! The imports of module flynn1. Those with room write nothing unless it fits, and return the full length, or -1 when there is
//! no such thing. On another machine than WebAssembly the stand-in of module testing answers.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::calls::*;

#[cfg(target_arch = "wasm32")]
mod imports {
    #[link(wasm_import_module = "flynn1")]
    extern "C" {
        pub fn get(field: u32, index: u32, buf: *mut u8, cap: u32) -> i32;
        pub fn arg(pointer: *const u8, len: u32, buf: *mut u8, cap: u32) -> i32;
        pub fn arg_kind(pointer: *const u8, len: u32) -> i32;
        pub fn data(key: *const u8, len: u32, buf: *mut u8, cap: u32) -> i32;
        #[link_name = "match"]
        pub fn matches(kind: u32, pattern: *const u8, pattern_len: u32, s: *const u8, len: u32) -> i32;
        pub fn trace(rule: u32, hit: u32);
        pub fn log(level: u32, text: *const u8, len: u32);
    }
}

#[cfg(target_arch = "wasm32")]
mod wasm {
    use super::imports;

    // SAFETY, of all: the host reads and writes what the slices span, and nothing else.

    pub(crate) fn get(field: u32, index: u32, room: &mut [u8]) -> i32 {
        unsafe { imports::get(field, index, room.as_mut_ptr(), room.len() as u32) }
    }

    pub(crate) fn arg(pointer: &str, room: &mut [u8]) -> i32 {
        unsafe { imports::arg(pointer.as_ptr(), pointer.len() as u32, room.as_mut_ptr(), room.len() as u32) }
    }

    pub(crate) fn arg_kind(pointer: &str) -> i32 {
        unsafe { imports::arg_kind(pointer.as_ptr(), pointer.len() as u32) }
    }

    pub(crate) fn data(key: &str, room: &mut [u8]) -> i32 {
        unsafe { imports::data(key.as_ptr(), key.len() as u32, room.as_mut_ptr(), room.len() as u32) }
    }

    pub(crate) fn matches(kind: u32, pattern: &str, s: &str) -> i32 {
        unsafe { imports::matches(kind, pattern.as_ptr(), pattern.len() as u32, s.as_ptr(), s.len() as u32) }
    }

    pub(crate) fn trace(rule: u32, hit: u32) {
        unsafe { imports::trace(rule, hit) }
    }

    pub(crate) fn log(level: u32, text: &str) {
        unsafe { imports::log(level, text.as_ptr(), text.len() as u32) }
    }
}

#[cfg(target_arch = "wasm32")]
pub(crate) use wasm::*;
