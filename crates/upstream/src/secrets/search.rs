//! Finds secrets in a text, in one pass over the text, whatever the number of secrets.
//!
//! Invariants: the search itself contains only the first bytes of each form. The forms are wiped when they are dropped.
//! If a text was cut inside of a secret, the beginning of the secret is found.

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use secrecy::{ExposeSecret, SecretString};

use super::forms;

/// A form shorter than this, in bytes, appears in too many innocent words.
pub(super) const SHORTEST: usize = 6;
/// The replacement of a secret.
pub(super) const BLANK: &str = "***";
/// The end of a text that was cut.
const CUT: char = '…';

/// All forms of some secrets, ready for a search.
#[derive(Debug)]
pub(super) struct Search {
    /// The first [`SHORTEST`] bytes of each form; `None` if they could not be compiled.
    beginnings: Option<AhoCorasick>,
    forms: Vec<SecretString>,
}

impl Search {
    /// Makes a search for `secrets`. A secret that is too short is left out.
    pub(super) fn of<'s>(secrets: impl Iterator<Item = &'s str>) -> Self {
        let long = secrets.filter(|secret| secret.trim().len() >= SHORTEST);
        let mut forms: Vec<String> = long.flat_map(forms::of).filter(|form| form.len() >= SHORTEST).collect();
        forms.sort_unstable();
        forms.dedup();
        let beginnings = forms.iter().map(|form| &form.as_bytes()[..SHORTEST]);
        let built = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(beginnings);
        Self { beginnings: built.ok(), forms: forms.into_iter().map(SecretString::from).collect() }
    }

    /// Returns `text` with [`BLANK`] in place of each secret.
    pub(super) fn redact(&self, text: &str) -> String {
        let Some(beginnings) = &self.beginnings else { return BLANK.to_owned() };
        let (mut blanked, mut end) = (String::with_capacity(text.len()), 0);
        // All beginnings have one length, so the matches come in the order in which they start.
        for found in beginnings.find_overlapping_iter(text) {
            let start = found.start();
            let Some(length) = self.length(found.pattern().as_usize(), &text[start..]) else { continue };
            if start >= end {
                blanked.push_str(&text[end..start]);
                blanked.push_str(BLANK);
            }
            end = end.max(start + length);
        }
        blanked.push_str(&text[end..]);
        blanked
    }

    /// The length of this form at the beginning of `text`, or of the part of it before a cut.
    fn length(&self, form: usize, text: &str) -> Option<usize> {
        let form = self.forms.get(form)?.expose_secret();
        let common = form.bytes().zip(text.bytes()).take_while(|(one, other)| one == other).count();
        let is_cut = || text.get(common..).is_some_and(|rest| rest.starts_with(CUT));
        (common == form.len() || is_cut()).then_some(common)
    }
}
