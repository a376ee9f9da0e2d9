//! Finds secrets in a text, in one pass over the text, whatever the number of secrets.
//!
//! Invariants: the search itself holds only the first bytes of each form; the forms are wiped when they are dropped.
//! A beginning of a secret is found too where a text was cut after it.

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use secrecy::{ExposeSecret, SecretString};

use super::forms;

/// A form shorter than this, in bytes, appears in too many innocent words.
pub(super) const SHORTEST: usize = 6;
/// The replacement of a secret.
pub(super) const BLANK: &str = "***";
/// The end of a text that was cut.
const CUT: char = '…';

/// All forms of some secrets, ready to be searched for.
#[derive(Debug)]
pub(super) struct Search {
    /// The first [`SHORTEST`] bytes of each form; none if they could not be compiled.
    beginnings: Option<AhoCorasick>,
    forms: Vec<SecretString>,
}

impl Search {
    /// For `secrets`; one that is too short is left out.
    pub(super) fn of<'s>(secrets: impl Iterator<Item = &'s str>) -> Self {
        let long = secrets.filter(|secret| secret.trim().len() >= SHORTEST);
        let mut forms: Vec<String> = long.flat_map(forms::of).filter(|form| form.len() >= SHORTEST).collect();
        forms.sort_unstable();
        forms.dedup();
        let beginnings = forms.iter().map(|form| &form.as_bytes()[..SHORTEST]);
        let built = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(beginnings);
        Self { beginnings: built.ok(), forms: forms.into_iter().map(SecretString::from).collect() }
    }

    /// `text` with [`BLANK`] for each secret in it.
    pub(super) fn blank(&self, text: &str) -> String {
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

    /// How much of the beginning of `text` is this form, or what was left of it by a cut.
    fn length(&self, form: usize, text: &str) -> Option<usize> {
        let form = self.forms.get(form)?.expose_secret();
        let common = form.bytes().zip(text.bytes()).take_while(|(one, other)| one == other).count();
        let is_cut = || text.get(common..).is_some_and(|rest| rest.starts_with(CUT));
        (common == form.len() || is_cut()).then_some(common)
    }
}
