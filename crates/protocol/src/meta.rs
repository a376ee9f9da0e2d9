//! `_meta` of a request: its sender, its revision, and its progress token. Also the name and version that Switchyard gives of
//! itself (`Implementation` in `schema.ts`).
//!
//! Source: 2026-07-28 `basic/index`, `_meta`; progress tokens since 2024-11-05.
//! Not here: `_meta` of results and of definitions, which pass unchanged.

use bytes::Bytes;

use super::compose::Composed;
use super::log_level::LogLevel;
use super::version::Era;
use json::decimal::Decimal;
use json::part::Part;
use json::raw::Raw;
use json::raw::edit::write_edited;

/// Key of the revision of a modern request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Key of the capabilities of the sender of a modern request.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Key of the name and version of the sender of a modern request.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Key of the least level of log lines for a modern request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Key of the `subscriptions/listen` request that a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Key of the name and version of the server, in results of the modern era.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Key of the token for progress notifications of a request.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// The client that sends a request, as its server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The capabilities that the client declared, or `{}` for programs that call over REST.
    pub capabilities: Raw,
    /// `{name, version, …}` of the client.
    pub info: Raw,
    /// The least level of log lines during this request, if the client set one.
    pub log_level: Option<LogLevel>,
}

impl Sender {
    /// Returns Switchyard itself, without capabilities, for discovery, health checks and REST calls.
    pub fn gateway() -> Self {
        Self { capabilities: Raw::empty_object(), info: own_info(), log_level: None }
    }

    /// Copies the sender into its own memory, so that it no longer keeps the buffer of the request.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { capabilities: self.capabilities.detached(), info: self.info.detached(), ..self.clone() }
    }
}

/// Returns the `_meta` object of `params`, if there is one.
pub fn of(params: Option<&Raw>) -> Option<Raw> {
    params?.get("_meta").filter(Raw::is_object)
}

/// Returns the `_meta` object of `params` without copying it, if there is one.
pub fn part(params: Option<&Raw>) -> Option<Part<'_>> {
    params?.part("_meta").filter(|meta| meta.is_object())
}

/// Returns the progress token of a request.
pub fn progress_token(params: Option<&Raw>) -> Option<Raw> {
    let token = part(params)?.get(PROGRESS_TOKEN).filter(|token| !token.is_null())?;
    params.map(|params| params.slice(token))
}

/// Whether a request has a progress token.
pub fn has_progress_token(params: &Raw) -> bool {
    let token = part(Some(params)).and_then(|meta| meta.get(PROGRESS_TOKEN));
    token.is_some_and(|token| !token.is_null())
}

/// Returns the revision that a modern request claims, unchanged.
pub fn claimed_version(params: Option<&Raw>) -> Option<Part<'_>> {
    part(params)?.get(PROTOCOL_VERSION)
}

/// Returns the least level of log lines in the `_meta` of a modern request, if it has one. The error is a
/// value that is no level.
pub fn level_in(meta: Part<'_>) -> Option<Result<LogLevel, Part<'_>>> {
    let level = meta.get(LOG_LEVEL)?;
    Some(level.text().and_then(|name| LogLevel::from_name(&name)).ok_or(level))
}

/// Adapts `params` to a server of `era`.
///
/// Modern: the members that describe the request are added if they are missing, and existing ones stay
/// unchanged. Legacy: they are removed, because that era does not have them. In both eras the progress token is
/// replaced by `token`, or removed if `token` is none.
pub fn dress(params: Option<&Raw>, era: Era, sender: &Sender, token: Option<&Raw>) -> Option<Raw> {
    let meta = of(params).unwrap_or_else(Raw::empty_object);
    let changes = Changes::of(meta.as_part(), era, sender, token.map(|token| token.bytes().as_ref()));
    let mut dressed = Vec::with_capacity(meta.bytes().len() + changes.length());
    write_edited(&mut dressed, meta.as_part(), changes.all());
    let dressed = Some(Raw::unindexed(Bytes::from(dressed)));
    let dressed = dressed.filter(|meta| era == Era::Modern || meta.bytes().as_ref() != EMPTY);
    match (params, dressed) {
        (Some(params), dressed) => Some(params.edit(&[("_meta", dressed.as_ref())])),
        (None, Some(dressed)) => Some(Raw::empty_object().with("_meta", &dressed)),
        (None, None) => None,
    }
}

/// Writes a comma and the `params` member that [`dress`] makes, as the last member of a request. Writes
/// nothing if there are no parameters. Usually every byte is copied at most once. Only memory of `params` is passed
/// without a copy.
pub fn write_dressed(
    out: &mut Composed,
    params: Option<&Raw>,
    era: Era,
    sender: &Sender,
    token: Option<u64>,
) {
    let mut digits = Decimal::default();
    let token = token.map(|token| digits.write(token));
    if params.and_then(|params| write_placed(out, params, era, sender, token)).is_some() {
        return;
    }
    let token = token.map(|token| Raw::unindexed(Bytes::copy_from_slice(token)));
    if let Some(dressed) = dress(params, era, sender, token.as_ref()) {
        out.text.extend_from_slice(PARAMS);
        out.text.extend_from_slice(dressed.bytes());
    }
}

/// Returns the most bytes that [`write_dressed`] writes in the usual case. `is_described` says whether the
/// request claims a revision, so that no description is added.
pub fn room(params: Option<&Raw>, is_described: bool, sender: &Sender, token: Option<u64>) -> usize {
    let length = params.map_or(0, |params| params.bytes().len());
    let described = PROTOCOL_VERSION.len() + CLIENT_CAPABILITIES.len() + CLIENT_INFO.len() + LOG_LEVEL.len();
    let own = sender.capabilities.bytes().len() + sender.info.bytes().len();
    let token = token.map_or(0, |_| PROGRESS_TOKEN.len() + NEW_META.len() + 32);
    let level = sender.log_level.map_or(0, |_| LOG_LEVEL.len() + 24);
    length + token + level + if is_described { 0 } else { described + own + NEW_META.len() + 64 }
}

/// Writes the parameters if their members are known and only members inside of `_meta` change, or a `_meta`
/// is added. Otherwise it returns `None` and writes nothing.
fn write_placed(
    out: &mut Composed,
    params: &Raw,
    era: Era,
    sender: &Sender,
    token: Option<&[u8]>,
) -> Option<()> {
    let (before, meta, after) = params.around("_meta")?;
    if meta.is_some_and(|meta| !meta.is_object() || era == Era::Legacy && meta.bytes() == EMPTY) {
        return None;
    }
    let object = meta.unwrap_or(Part::new(EMPTY, None));
    let changes = Changes::of(object, era, sender, token);
    let start = out.text.len();
    out.text.extend_from_slice(PARAMS);
    if changes.all().is_empty() {
        out.add(params.bytes(), params.bytes());
        return Some(());
    }
    out.add(params.bytes(), before);
    if meta.is_none() {
        out.text.extend_from_slice(NEW_META);
    }
    let inner = out.text.len();
    write_edited(&mut out.text, object, changes.all());
    if era == Era::Legacy && out.text[inner..] == *EMPTY {
        out.text.truncate(start);
        out.passed = None;
        return None;
    }
    out.add(params.bytes(), after);
    Some(())
}

const EMPTY: &[u8] = b"{}";
const PARAMS: &[u8] = b",\"params\":";
const NEW_META: &[u8] = b",\"_meta\":";
/// [`super::Version::NEWEST_MODERN`] as JSON.
const NEWEST: &[u8] = b"\"2026-07-28\"";

/// The changes in the `_meta` of a request.
struct Changes<'a> {
    all: [(&'static str, Option<&'a [u8]>); 5],
    count: usize,
}

impl<'a> Changes<'a> {
    fn of(meta: Part<'_>, era: Era, sender: &'a Sender, token: Option<&'a [u8]>) -> Self {
        let mut changes = Self { all: [("", None); 5], count: 0 };
        let described = [
            (PROTOCOL_VERSION, Some(NEWEST)),
            (CLIENT_CAPABILITIES, Some(sender.capabilities.bytes().as_ref())),
            (CLIENT_INFO, Some(sender.info.bytes().as_ref())),
            (LOG_LEVEL, sender.log_level.map(LogLevel::as_json)),
        ];
        for (key, own) in described {
            match (era, meta.get(key)) {
                (Era::Modern, None) if own.is_some() => changes.add(key, own),
                (Era::Legacy, Some(_)) => changes.add(key, None),
                _ => {}
            }
        }
        if token.is_some() || meta.get(PROGRESS_TOKEN).is_some() {
            changes.add(PROGRESS_TOKEN, token);
        }
        changes
    }

    fn add(&mut self, key: &'static str, value: Option<&'a [u8]>) {
        if let Some(slot) = self.all.get_mut(self.count) {
            *slot = (key, value);
            self.count += 1;
        }
    }

    fn all(&self) -> &[(&'static str, Option<&'a [u8]>)] {
        &self.all[..self.count]
    }

    /// Returns the most bytes that the changes add.
    fn length(&self) -> usize {
        self.all().iter().map(|(key, value)| value.map_or(0, |value| key.len() + value.len() + 4)).sum()
    }
}

const OWN: &str =
    concat!(r#"{"name":"switchyard","title":"Switchyard","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// `{name, title, version}` of the gateway, for `clientInfo` and `serverInfo`.
pub const fn own_info() -> Raw {
    Raw::unindexed(Bytes::from_static(OWN.as_bytes()))
}

#[cfg(test)]
#[path = "meta_tests.rs"]
mod tests;
