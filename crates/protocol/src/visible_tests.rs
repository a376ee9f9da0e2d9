//! Tests of the escaping of invisible characters. The table itself is compared with Unicode in the root package.

use super::*;

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
