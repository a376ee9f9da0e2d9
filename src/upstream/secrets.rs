//! What one server was given in confidence, blanked wherever its words are shown: servers quote what
//! they refuse ("Incorrect API key provided: …").
//!
//! Invariant: no text from a server, or about one, reaches a log, a status or an error of ours before it
//! went through here. Most texts were escaped and cut on their way, so a secret is also found as it looks
//! then, and its beginning where a text was cut.
//!
//! Not here: what a server answers to a call, which is its caller's as it is; the services behind
//! built-in servers, whose client knows what it sent (`builtin/rest`).

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::config::{Config, Http, Transport};
use super::discover::Offer;
use super::error::Error;
use super::token_file::TokenFile;

/// A secret shorter than this, in bytes, stands in too many innocent words.
const SHORTEST: usize = 6;
/// What stands where a secret stood.
const BLANK: &str = "***";
/// What stands where a text was cut.
const CUT: char = '…';
/// Places at which a text was cut that are looked at, from its end.
const CUTS: usize = 8;

/// The secrets of one server, the longest first, because one may stand in another.
#[derive(Debug, Clone, Default)]
pub(super) struct Secrets {
    known: Arc<[SecretString]>,
    /// Holds one more, another one from time to time.
    token: Option<TokenFile>,
}

impl Secrets {
    /// All that the server of `config` is given in confidence: what its settings have from variables,
    /// header values, user and query of its URL, its environment.
    pub(super) fn of(config: &Config) -> Self {
        let (mut given, mut token) = (config.secrets.clone(), None);
        match &config.transport {
            Transport::Http(http) | Transport::Sse(http) => {
                given.extend(in_requests(http));
                token.clone_from(&http.token);
            }
            Transport::Stdio(stdio) => {
                given.extend(stdio.env.values().cloned());
                let ours = |name: &String| std::env::var(name).map(|value| in_variable(name, &value)).ok();
                given.extend(stdio.pass_env.iter().filter_map(ours).flatten());
            }
            Transport::Builtin(_) => {}
        }
        let known: Self = given.iter().map(ExposeSecret::expose_secret).flat_map(shapes).collect();
        Self { token, ..known }
    }

    /// `text` without any of them.
    pub(super) fn blank(&self, text: &str) -> String {
        let own = self.token.iter().flat_map(TokenFile::secrets);
        let own: Self = own.flat_map(|token| shapes(token.expose_secret())).collect();
        let secrets = own.known.iter().chain(&*self.known).map(ExposeSecret::expose_secret);
        secrets.fold(text.to_owned(), |text, secret| without_stumps(text.replace(secret, BLANK), secret))
    }

    /// `error` without any of them.
    pub(super) fn cover(&self, error: Error) -> Error {
        error.reworded(|text| self.blank(&text))
    }

    /// What came of reading an offer, as operators are told of it. Definitions are clients' and stay.
    pub(super) fn cover_offer(&self, read: Result<Offer, Error>) -> Result<Offer, Error> {
        let mut offer = read.map_err(|error| self.cover(error))?;
        for problem in &mut offer.problems {
            *problem = self.blank(problem);
        }
        Ok(offer)
    }
}

impl FromIterator<SecretString> for Secrets {
    fn from_iter<I: IntoIterator<Item = SecretString>>(secrets: I) -> Self {
        let long = secrets.into_iter().filter(|secret| secret.expose_secret().len() >= SHORTEST);
        let mut long: Vec<SecretString> = long.collect();
        long.sort_by(|one, other| {
            let (one, other) = (one.expose_secret(), other.expose_secret());
            other.len().cmp(&one.len()).then_with(|| one.cmp(other))
        });
        long.dedup_by(|one, other| one.expose_secret() == other.expose_secret());
        Self { known: long.into(), token: None }
    }
}

/// What is sent to a URL with each request: headers, also without their scheme, and what the URL holds.
fn in_requests(http: &Http) -> Vec<SecretString> {
    let values = http.headers.iter().map(|(_, value)| value.clone());
    let bare = http.headers.iter().filter_map(|(_, value)| value.expose_secret().split_once(' '));
    let bare = bare.map(|(_scheme, credential)| credential.into());
    values.chain(bare).chain(in_url(&http.url)).collect()
}

/// What is secret in a variable that a child is given as it is: all of it, as we cannot know what it means; of
/// an address what one may hold in confidence; nothing of a path and of `NO_PROXY`, which errors need.
fn in_variable(name: &str, value: &str) -> Vec<SecretString> {
    match Url::parse(value) {
        Ok(url) if url.has_host() => in_url(&url),
        _ if value.starts_with('/') || name.eq_ignore_ascii_case("NO_PROXY") => Vec::new(),
        _ => vec![value.into()],
    }
}

/// User and password as written, as meant and as they are sent (RFC 7617); the values of the query, or what
/// stands there without a name.
fn in_url(url: &Url) -> Vec<SecretString> {
    let meant = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = (url.username(), url.password().unwrap_or_default());
    let sent = STANDARD.encode(format!("{}:{}", meant(user), meant(password)));
    let mut found: Vec<SecretString> =
        [user, password].into_iter().flat_map(|text| [text.into(), meant(text).into()]).collect();
    found.push(sent.into());
    let value = |pair: &str| -> SecretString { pair.split_once('=').map_or(pair, |(_, value)| value).into() };
    found.extend(url.query().into_iter().flat_map(|query| query.split('&')).map(value));
    found.extend(url.query_pairs().map(|(_, value)| value.into_owned().into()));
    found
}

/// How `secret` may look in a text: whole or, where it has several, a line of it; as it is, or escaped for
/// a log as `char` and `str` do it.
fn shapes(secret: &str) -> Vec<SecretString> {
    let lines = secret.lines().map(str::trim).chain([secret.trim()]);
    let escaped = |text: &str| -> [SecretString; 3] {
        let quoted = format!("{text:?}");
        let quoted = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
        let escaped: String = text.chars().flat_map(char::escape_debug).collect();
        [text.into(), escaped.into(), quoted.into()]
    };
    lines.flat_map(escaped).collect()
}

/// `text` without the beginnings of `secret` that were left where it was cut.
fn without_stumps(mut text: String, secret: &str) -> String {
    let cuts: Vec<usize> = text.rmatch_indices(CUT).take(CUTS).map(|(at, _)| at).collect();
    for at in cuts {
        if let Some(length) = stump(&text[..at], secret) {
            text.replace_range(at - length..at, BLANK);
        }
    }
    text
}

/// The length of the beginning of `secret` that `text` ends with, where that is long enough to matter.
fn stump(text: &str, secret: &str) -> Option<usize> {
    let beginnings = (SHORTEST..secret.len()).rev().filter_map(|end| secret.get(..end));
    beginnings.filter(|beginning| text.ends_with(beginning)).map(str::len).next()
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
