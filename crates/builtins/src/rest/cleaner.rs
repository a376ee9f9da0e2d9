//! Makes text of a service safe to show.
//!
//! Invariants: the text is one short line without control characters. It has no secret of the request, in no
//! usual encoding, and no stack trace (`trace`).

use super::trace;
use runtime::secret::{ExposeSecret, SecretString};
use upstream::api::Secrets;

/// Most characters of the message that are shown.
const LONGEST: usize = 300;

/// Makes text of a service safe to show: short, on one line, and without secrets and stack traces.
pub(crate) struct Cleaner<'a> {
    secrets: &'a [SecretString],
    /// The secrets in other forms, such as Base64.
    forms: Secrets,
}

impl<'a> Cleaner<'a> {
    /// Makes a cleaner that removes `secrets`.
    pub(crate) fn new(secrets: &'a [SecretString]) -> Self {
        Self { secrets, forms: Secrets::new(secrets) }
    }

    /// Returns `text` as one short line, or an empty string if it was only a stack trace.
    pub(crate) fn line(&self, text: String) -> String {
        line(&trace::cut(&self.without_secrets(text)))
    }

    fn without_secrets(&self, text: String) -> String {
        let shown = self.secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty());
        let text = shown.fold(text, |text, secret| text.replace(secret, "…"));
        self.forms.redact(&text)
    }
}

/// Returns the message of a service as one short line, without `secrets` and stack traces. It is empty if
/// nothing else is left.
pub(crate) fn plain(text: String, secrets: &[SecretString]) -> String {
    Cleaner::new(secrets).line(text)
}

/// Returns `text` as one short line without control characters. Quotes stay, because people read it.
fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let whole = words.collect::<Vec<_>>().join(" ");
    let mut line: String = whole.chars().take(LONGEST).collect();
    if line.len() < whole.len() {
        line.push('…');
    }
    line
}
