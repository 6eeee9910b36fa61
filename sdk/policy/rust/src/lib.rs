//! The Rust SDK for Flynn's policies: small WebAssembly modules that decide which agent answers a message, and how a
//! tool call is restricted.
//!
//! ```ignore
//! #![no_std]
//! #![forbid(unsafe_code)]
//!
//! use flynn::{RouteAnswer, RouteFacts};
//!
//! flynn::route!(route);
//!
//! fn route(f: RouteFacts<'_>) -> RouteAnswer<'_> {
//!     if f.role() == "owner" {
//!         return RouteAnswer::agent("coder").rule(1).reason("owners code");
//!     }
//!     RouteAnswer::abstain() // the next policy decides
//! }
//! ```
//!
//! Build it with `flynn policy dev build`, which needs nothing but `rustc` with the target wasm32-unknown-unknown. Start with
//! [`route!`], [`tool!`], [`Facts`], [`RouteAnswer`] and [`Restriction`].
//!
//! A hook may also return a `Result` with a text as its error: the text is logged and the policy fails, as it does when it
//! panics. A failure never loosens anything: a tool call is denied, a message goes to the agent for errors.
//!
//! Texts that come out of facts lie in the host's frame or in memory that the next decision uses again. Their lifetime says
//! so, and nothing of a decision can be kept beyond it. The crate needs no allocator: what a policy reads or makes up goes to
//! memory that is forgotten when the hook returns.
//!
//! On the machine you sit at the crate compiles too, so that policies can be unit tested: see [`testing`].
#![no_std]
#![warn(missing_docs)]

#[cfg(not(target_arch = "wasm32"))]
extern crate std;

pub mod abi;
mod answer;
mod arena;
#[cfg(any(target_arch = "wasm32", test))]
mod compare;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod export;
mod facts;
mod frame;
mod host;
mod hostcall;
mod list;
#[cfg(target_arch = "wasm32")]
mod memory;
mod output;
#[cfg(target_arch = "wasm32")]
mod panic;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use answer::{Restriction, RouteAnswer, RouteResult, ToolResult, Verdict};
pub use facts::{Facts, RouteFacts, ToolFacts};
pub use host::{cidr, domain, glob, log, re2, trace, Kind, Level};
pub use list::List;

/// Makes a function the policy's hook for routing: `fn(RouteFacts<'_>) -> RouteAnswer<'_>`, or a `Result` of that.
#[macro_export]
macro_rules! route {
    ($hook:path) => {
        #[cfg(target_arch = "wasm32")]
        #[doc(hidden)]
        #[no_mangle]
        pub extern "C" fn flynn_route(len: u32) -> i64 {
            $crate::export::route(len, |f| $crate::RouteResult::output($hook(f)))
        }

        // For the unit tests' sake, which call the hook themselves.
        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            let _ = $hook;
        };
    };
}

/// Makes a function the policy's hook for tools: `fn(ToolFacts<'_>) -> Restriction<'_>`, or a `Result` of that.
#[macro_export]
macro_rules! tool {
    ($hook:path) => {
        #[cfg(target_arch = "wasm32")]
        #[doc(hidden)]
        #[no_mangle]
        pub extern "C" fn flynn_tool(len: u32) -> i64 {
            $crate::export::tool(len, |f| $crate::ToolResult::output($hook(f)))
        }

        // For the unit tests' sake, which call the hook themselves.
        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            let _ = $hook;
        };
    };
}
