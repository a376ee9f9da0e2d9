//! The secrets of one server, replaced by `***` wherever text of the server is shown. Servers quote the values that
//! they refuse ("Incorrect API key provided: …").
//!
//! Invariant: no text from a server, or about one, reaches a log, a status or an error of Switchyard without passing
//! through here. Such texts were escaped, encoded or cut before, so every usual form of a secret is found.
//!
//! Not here: the results of calls, which reach their caller unchanged.

mod forms;

use std::sync::{Arc, Mutex, PoisonError};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::config::{Config, Http, Transport};
use super::credential::TokenSource;
use super::error::Error;
use super::offer::Offer;
use super::principal_secrets::PrincipalSecrets;
use super::token_file::TokenFile;
use oauth::Logins;

/// The secrets of one server.
#[derive(Debug, Clone)]
pub struct Secrets {
    known: Arc<Search>,
    /// Further secrets, which change.
    changing: Vec<Changing>,
}

/// A search, and the count of changes that it includes.
type CachedSearch = Option<(u64, Arc<Search>)>;

/// Secrets that change, and the search that was made for them last: there may be tokens of many principals.
#[derive(Debug, Clone)]
struct Changing {
    secrets: ChangingSecrets,
    made: Arc<Mutex<CachedSearch>>,
}

impl Changing {
    fn new(secrets: ChangingSecrets) -> Self {
        Self { secrets, made: Arc::default() }
    }

    fn search(&self) -> Arc<Search> {
        let changes = self.secrets.changes();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, search)) = &*made
            && Some(*at) == changes
        {
            return Arc::clone(search);
        }
        let search = Arc::new(Search::of(self.secrets.all().iter().map(ExposeSecret::expose_secret)));
        *made = changes.map(|at| (at, Arc::clone(&search)));
        search
    }
}

impl Secrets {
    /// Collects the secrets of the server of `config`: values of variables in its settings, header values, user and
    /// query of its URL, and its environment. The tokens of `logins` and the secrets of `principals` are added.
    pub(super) fn of(
        config: &Config,
        logins: Option<Arc<Logins>>,
        principals: Option<Arc<PrincipalSecrets>>,
    ) -> Self {
        let mut given = config.secrets.clone();
        let mut changing: Vec<_> = logins.map(ChangingSecrets::Logins).into_iter().collect();
        changing.extend(principals.map(ChangingSecrets::Principals));
        match &config.transport {
            Transport::Http(http) | Transport::Sse(http) => {
                given.extend(in_requests(http));
                if let Some(TokenSource::File(file)) = &http.token {
                    changing.push(ChangingSecrets::File(file.clone()));
                }
            }
            Transport::Stdio(stdio) => {
                given.extend(stdio.env.values().cloned());
                let ours = |name: &String| std::env::var(name).map(|value| in_variable(name, &value)).ok();
                given.extend(stdio.pass_env.iter().filter_map(ours).flatten());
            }
            Transport::Builtin(_) => {}
        }
        Self { changing: changing.into_iter().map(Changing::new).collect(), ..Self::new(&given) }
    }

    /// Makes a redactor for these secrets.
    pub fn new(secrets: &[SecretString]) -> Self {
        let known = Search::of(secrets.iter().map(ExposeSecret::expose_secret));
        Self { known: Arc::new(known), changing: Vec::new() }
    }

    /// Returns `text` with the secrets redacted.
    pub fn redact(&self, text: &str) -> String {
        let text = self.known.redact(text);
        self.changing.iter().fold(text, |text, changing| changing.search().redact(&text))
    }

    /// Returns `error` with the secrets redacted.
    pub(super) fn redact_error(&self, error: Error) -> Error {
        error.reworded(|text| self.redact(&text)).with_facts(|text| self.redact(text))
    }

    /// Redacts an offer, or the error of reading it, for operators. Definitions are for clients and stay unchanged.
    pub(super) fn redact_offer(&self, read: Result<Offer, Error>) -> Result<Offer, Error> {
        let mut offer = read.map_err(|error| self.redact_error(error))?;
        for problem in &mut offer.problems {
            *problem = self.redact(problem);
        }
        Ok(offer)
    }
}

/// The secrets in each request to a URL: header values with and without their scheme, and those of the URL.
fn in_requests(http: &Http) -> Vec<SecretString> {
    let values = http.headers.iter().map(|(_, value)| value.clone());
    let bare = http.headers.iter().filter_map(|(_, value)| value.expose_secret().split_once(' '));
    let bare = bare.flat_map(|(scheme, credential)| {
        let decoded = if scheme.eq_ignore_ascii_case("basic") { in_basic(credential) } else { Vec::new() };
        decoded.into_iter().chain([credential.into()])
    });
    values.chain(bare).chain(in_url(&http.url)).collect()
}

/// User and password of the credentials of `Basic` (RFC 7617).
fn in_basic(credentials: &str) -> Vec<SecretString> {
    let decoded = STANDARD.decode(credentials.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
    pair.map(|(user, password)| vec![user.into(), password.into()]).unwrap_or_default()
}

/// The secrets in a variable that a child inherits. The meaning of a value is unknown, so the whole value is secret. A
/// URL has secret parts only. Paths and `NO_PROXY` are not secret, because errors need them.
fn in_variable(name: &str, value: &str) -> Vec<SecretString> {
    match Url::parse(value) {
        Ok(url) if url.has_host() => in_url(&url),
        _ if value.starts_with('/') || name.eq_ignore_ascii_case("NO_PROXY") => Vec::new(),
        _ => vec![value.into()],
    }
}

/// The user and the password as written, as decoded and as sent (RFC 7617). Also the values of the query, and query
/// parts without a name.
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

/// The secrets that are sent to one server and change while Switchyard runs.
#[derive(Clone)]
enum ChangingSecrets {
    File(TokenFile),
    Logins(Arc<Logins>),
    Principals(Arc<PrincipalSecrets>),
}

impl ChangingSecrets {
    /// The present secrets, and those that running requests may carry.
    fn all(&self) -> Vec<SecretString> {
        match self {
            Self::File(file) => file.secrets(),
            Self::Logins(logins) => logins.secrets(),
            Self::Principals(secrets) => secrets.values(),
        }
    }

    /// A number that changes whenever the secrets do, if there is one. Read it before the secrets.
    fn changes(&self) -> Option<u64> {
        match self {
            Self::File(_) => None,
            Self::Logins(logins) => Some(logins.changes()),
            Self::Principals(secrets) => Some(secrets.changes()),
        }
    }
}

impl std::fmt::Debug for ChangingSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChangingSecrets")
    }
}

/// A form shorter than this, in bytes, appears in too many innocent words.
const SHORTEST: usize = 6;
/// The replacement of a secret.
const BLANK: &str = "***";
/// The end of a text that was cut.
const CUT: char = '…';

/// All forms of some secrets, ready for a search.
///
/// Invariants: the search itself contains only the first bytes of each form. The forms are wiped when they are
/// dropped. If a text was cut inside of a secret, the beginning of the secret is found.
#[derive(Debug)]
struct Search {
    /// The first [`SHORTEST`] bytes of each form; `None` if they could not be compiled.
    beginnings: Option<AhoCorasick>,
    forms: Vec<SecretString>,
}

impl Search {
    /// Makes a search for `secrets`. A secret that is too short is left out.
    fn of<'s>(secrets: impl Iterator<Item = &'s str>) -> Self {
        let long = secrets.filter(|secret| secret.trim().len() >= SHORTEST);
        let mut forms: Vec<String> = long.flat_map(forms::of).filter(|form| form.len() >= SHORTEST).collect();
        forms.sort_unstable();
        forms.dedup();
        let beginnings = forms.iter().map(|form| &form.as_bytes()[..SHORTEST]);
        let built = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(beginnings);
        Self { beginnings: built.ok(), forms: forms.into_iter().map(SecretString::from).collect() }
    }

    /// Returns `text` with [`BLANK`] in place of each secret.
    fn redact(&self, text: &str) -> String {
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

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
