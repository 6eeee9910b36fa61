//! Lists of texts inside a frame.

use crate::frame::{load, text};

/// A list of texts, an iterator: `for label in f.labels()`.
#[derive(Clone, Copy)]
pub struct List<'a> {
    rest: &'a [u8],
}

impl<'a> List<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> List<'a> {
        List { rest }
    }

    /// Reports whether the list has exactly this text.
    pub fn contains(self, want: &str) -> bool {
        self.into_iter().any(|have| have == want)
    }

    /// Reports whether an item begins with this text.
    pub fn any_starts_with(self, prefix: &str) -> bool {
        self.into_iter().any(|have| have.starts_with(prefix))
    }
}

impl<'a> Iterator for List<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let items = self.rest.get(4..)?;
        let n = load(self.rest, 0) as usize;
        let item = items.get(..n)?;
        self.rest = items.get(n..)?;
        Some(text(item))
    }
}
