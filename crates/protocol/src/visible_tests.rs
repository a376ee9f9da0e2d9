//! Tests of the table of invisible characters.

use std::fmt::Write as _;
use std::path::Path;

use regex_syntax::hir::{Class, HirKind};

use super::*;

/// The rule, over the data of Unicode that `regex-syntax` has. The single characters are glyphs without ink: the Braille
/// pattern without dots, the Khitan filler, two hieroglyphic blanks and the musical null notehead.
const RULE: &str = r"[\p{Default_Ignorable_Code_Point}[\p{Cf}--\p{Prepended_Concatenation_Mark}]\p{Cc}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}\x{2800}\x{16fe4}\x{13441}\x{13442}\x{1d159}]";

fn rendered() -> String {
    let rule = regex_syntax::parse(RULE).expect("a class");
    let HirKind::Class(Class::Unicode(class)) = rule.kind() else { panic!("a class of characters") };
    let mut text = "//! The invisible characters. `UPDATE_GOLDEN=1` makes this file from the rule in `visible_tests.rs`.\n\n\
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/visible/table.rs");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, rendered()).expect("written");
    }
    let table = std::fs::read_to_string(&path).expect("read");
    assert_eq!(table, rendered(), "UPDATE_GOLDEN=1 renews the table");
}

#[test]
fn every_kind_of_invisible_character_is_escaped() {
    let kinds = "\u{0}\u{9}\u{a}\u{d}\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}\u{180e}\
                 \u{180f}\u{200b}\u{200d}\u{200e}\u{2028}\u{2029}\u{202a}\u{202e}\u{2060}\u{2064}\u{2065}\u{2066}\u{2069}\u{206f}\
                 \u{2800}\u{3164}\u{fdd0}\u{fe00}\u{fe0f}\u{feff}\u{ffa0}\u{fff0}\u{fff8}\u{fff9}\u{fffb}\u{ffff}\u{13430}\
                 \u{13441}\u{16fe4}\u{1bca0}\u{1d159}\u{1d173}\u{1d17a}\u{e0000}\u{e0001}\u{e0041}\u{e007f}\u{e0080}\u{e0100}\
                 \u{e01ef}\u{e01f0}\u{e0fff}\u{10ffff}";
    for c in kinds.chars() {
        let shown = visible(c.encode_utf8(&mut [0; 4])).to_string();
        assert!(!is_visible(c) && shown.starts_with('\\') && shown.is_ascii(), "{c:?}: {shown}");
    }
    assert_eq!(visible("a\n\u{202e}\u{e0041}b").to_string(), r"a\n\u{202e}\u{e0041}b");
}

#[test]
fn texts_of_all_languages_stay_as_they_are() {
    let text = "plain 'text' \"\\\" Ünïcode e\u{301} 世界\u{3000}한국어 العربية \u{600} हिन्दी ไทย 🇫🇷 👩🏽 « a\u{a0}» \u{fffd}";
    assert_eq!(visible(text).to_string(), text);
}
