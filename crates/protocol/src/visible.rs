//! Makes every character of a text visible: the one rule for all texts that others wrote, wherever they are shown.
//!
//! Invariants: an invisible character is written as its escape, such as `\n` or `\u{202e}`. These are control characters,
//! line separators, format characters without a glyph, noncharacters and blank glyphs. Those that Unicode ignores by
//! default, such as tags and variation selectors, are invisible too. All other characters stay, spaces of any width among
//! them.
//!
//! Not here: shortening (`sanitize`), quoting and markup.
//!
//! Source: Unicode Standard Annex 44, `Default_Ignorable_Code_Point`, `General_Category`.

mod table;

use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;

pub use table::INVISIBLE;

/// Whether a reader sees `c` as what it is. A space counts as visible, a line end or tab does not.
pub fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let before = INVISIBLE.partition_point(|range: &RangeInclusive<char>| *range.end() < c);
    INVISIBLE.get(before).is_none_or(|range| c < *range.start())
}

/// Returns `c`, or its escape if it is invisible.
pub fn escaped(c: char) -> impl Iterator<Item = char> {
    let plain = is_visible(c).then_some(c);
    let escape = plain.is_none().then(|| c.escape_default());
    plain.into_iter().chain(escape.into_iter().flatten())
}

/// `text`, with every invisible character as its escape.
pub fn visible(text: &str) -> Visible<'_> {
    Visible(text)
}

/// Text that displays without invisible characters. See [`visible`].
#[derive(Debug, Clone, Copy)]
pub struct Visible<'a>(&'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().flat_map(escaped).try_for_each(|c| f.write_char(c))
    }
}

#[cfg(test)]
#[path = "visible_tests.rs"]
mod tests;
