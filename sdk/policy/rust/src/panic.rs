//! A panic ends the module, which the host takes as a failure of the policy.

use core::panic::PanicInfo;

use crate::host::{log, Level};

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    if let Some(at) = info.location() {
        log(Level::Error, crate::arena::concat(&["panic at ", at.file(), ":", crate::arena::decimal(at.line() as i64)]));
    }
    core::arch::wasm32::unreachable()
}
