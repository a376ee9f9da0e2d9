//! The table of invisible characters of the crate `protocol`, made from the data of Unicode.

use std::fmt::Write as _;

use regex_syntax::hir::{Class, HirKind};

use super::compare;

/// The rule, over the data of Unicode that `regex-syntax` has. The single characters are glyphs without ink: the Braille
/// pattern without dots, the Khitan filler, two hieroglyphic blanks and the musical null notehead.
const RULE: &str = r"[\p{Default_Ignorable_Code_Point}[\p{Cf}--\p{Prepended_Concatenation_Mark}]\p{Cc}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}\x{2800}\x{16fe4}\x{13441}\x{13442}\x{1d159}]";

fn rendered() -> String {
    let rule = regex_syntax::parse(RULE).expect("a class");
    let HirKind::Class(Class::Unicode(class)) = rule.kind() else { panic!("a class of characters") };
    let mut text = "//! The invisible characters. `UPDATE_GOLDEN=1` makes this file from the rule in `src/docs_tests/invisible.rs`.\n\n\
                    use std::ops::RangeInclusive;\n\n\
                    /// All invisible characters, in order.\npub const INVISIBLE: &[RangeInclusive<char>] = &[\n"
        .to_owned();
    for range in class.ranges() {
        let (start, end) = (u32::from(range.start()), u32::from(range.end()));
        writeln!(text, "    '\\u{{{start:x}}}'..='\\u{{{end:x}}}',").expect("written");
    }
    text + "];\n"
}

#[test]
fn table_is_what_the_data_of_unicode_says() {
    compare("crates/protocol/src/visible/table.rs", &rendered());
}
