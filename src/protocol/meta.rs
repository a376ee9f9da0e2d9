//! `_meta` of a request: who sends it, in which revision, and how progress is to be marked.
//!
//! Source: 2026-07-28 `basic/index`, `_meta`; progress tokens since 2024-11-05.
//! Not here: `_meta` of results and of definitions, which pass untouched.

use super::log_level::LogLevel;
use super::raw::Raw;
use super::version::{Era, Version};

/// Key of the revision a modern request is written in.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Key of what the sender of a modern request can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Key of who sends a modern request.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Key of the lowest level of log lines a modern request wants.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Key of the `subscriptions/listen` request a notice belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Key of who answers, in results of the modern era.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Key of the token that marks progress of a request.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// The client a request is made for, as far as its server may know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The capabilities the client declared; `{}` for programs that call over REST.
    pub capabilities: Raw,
    /// `{name, version, …}` of the client.
    pub info: Raw,
    /// The least level of log lines it wants during this request; none: it did not say.
    pub log_level: Option<LogLevel>,
}

impl Sender {
    /// The gateway itself: no capabilities, for discovery, health checks and REST calls.
    pub fn gateway() -> Self {
        Self { capabilities: Raw::empty_object(), info: super::lifecycle::own_info(), log_level: None }
    }
}

/// The `_meta` object of `params`, if there is one.
pub fn of(params: Option<&Raw>) -> Option<Raw> {
    params?.get("_meta").filter(Raw::is_object)
}

/// The progress token a request carries.
pub fn progress_token(params: Option<&Raw>) -> Option<Raw> {
    of(params)?.get(PROGRESS_TOKEN).filter(|token| !token.is_null())
}

/// The revision a modern request claims, as it is spelled.
pub fn claimed_version(params: Option<&Raw>) -> Option<Raw> {
    of(params)?.get(PROTOCOL_VERSION)
}

/// The least level of log lines a modern request wants, if it says so; the error is what it says
/// instead of a level.
pub fn log_level(params: Option<&Raw>) -> Option<Result<LogLevel, Raw>> {
    let said = of(params)?.get(LOG_LEVEL)?;
    let name = said.read::<String>().ok();
    Some(name.and_then(|name| LogLevel::from_name(&name)).ok_or(said))
}

/// Writes `params` the way a server of `era` expects them.
///
/// Modern: the three members that describe the request are filled in where they are missing; a
/// modern client's own stay byte for byte. Legacy: they are removed, because that wire has no such
/// thing. In both, a progress token is replaced by `token`, and only by that.
pub fn dress(params: Option<&Raw>, era: Era, sender: &Sender, token: Option<&Raw>) -> Option<Raw> {
    let meta = of(params).unwrap_or_else(Raw::empty_object);
    let dressed = match era {
        Era::Modern => Some(dress_modern(meta, sender, token)),
        Era::Legacy => Some(dress_legacy(&meta, token)).filter(|meta| meta.bytes().as_ref() != b"{}"),
    };
    match (params, dressed) {
        (Some(params), dressed) => Some(params.edit(&[("_meta", dressed.as_ref())])),
        (None, Some(dressed)) => Some(Raw::empty_object().with("_meta", &dressed)),
        (None, None) => None,
    }
}

fn dress_modern(meta: Raw, sender: &Sender, token: Option<&Raw>) -> Raw {
    let version = Raw::of(Version::NEWEST_MODERN.as_str());
    let mut changes: Vec<(&str, Option<&Raw>)> = Vec::with_capacity(5);
    for (key, value) in [
        (PROTOCOL_VERSION, &version),
        (CLIENT_CAPABILITIES, &sender.capabilities),
        (CLIENT_INFO, &sender.info),
    ] {
        if meta.get(key).is_none() {
            changes.push((key, Some(value)));
        }
    }
    let level = sender.log_level.map(|level| Raw::of(level.as_str()));
    if let Some(level) = &level
        && meta.get(LOG_LEVEL).is_none()
    {
        changes.push((LOG_LEVEL, Some(level)));
    }
    if token.is_some() || meta.get(PROGRESS_TOKEN).is_some() {
        changes.push((PROGRESS_TOKEN, token));
    }
    if changes.is_empty() { meta } else { meta.edit(&changes) }
}

fn dress_legacy(meta: &Raw, token: Option<&Raw>) -> Raw {
    meta.edit(&[
        (PROTOCOL_VERSION, None),
        (CLIENT_CAPABILITIES, None),
        (CLIENT_INFO, None),
        (LOG_LEVEL, None),
        (PROGRESS_TOKEN, token),
    ])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::parse(&Bytes::from_static(text.as_bytes())).expect("JSON")
    }

    fn sender() -> Sender {
        Sender { capabilities: raw(r#"{"roots":{}}"#), info: raw(r#"{"name":"c"}"#), log_level: None }
    }

    #[test]
    fn a_modern_request_stays_itself_for_a_modern_server() {
        let text = r#"{"name":"t","_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":1.0},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{},"own":1e400}}"#;
        let dressed = dress(Some(&raw(text)), Era::Modern, &sender(), None).expect("params");
        assert_eq!(dressed.as_str(), text);
    }

    #[test]
    fn a_legacy_request_is_completed_for_a_modern_server() {
        let dressed = dress(
            Some(&raw(r#"{"name":"t","_meta":{"progressToken":"p","own":1}}"#)),
            Era::Modern,
            &sender(),
            Some(&raw("7")),
        );
        let meta = of(dressed.as_ref()).expect("_meta");
        assert_eq!(meta.get(PROGRESS_TOKEN).expect("token").as_str(), "7");
        assert_eq!(meta.get("own").expect("kept").as_str(), "1");
        assert_eq!(meta.get(PROTOCOL_VERSION).expect("version").as_str(), "\"2026-07-28\"");
        assert_eq!(meta.get(CLIENT_CAPABILITIES).expect("caps").as_str(), r#"{"roots":{}}"#);
        assert!(dress(None, Era::Modern, &sender(), None).is_some());
    }

    #[test]
    fn a_modern_request_loses_its_modern_members_for_a_legacy_server() {
        let text = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","own":1,"progressToken":5},"name":"t"}"#;
        let dressed = dress(Some(&raw(text)), Era::Legacy, &sender(), Some(&raw("9"))).expect("params");
        assert_eq!(dressed.as_str(), r#"{"_meta":{"own":1,"progressToken":9},"name":"t"}"#);
        let bare = raw(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name":"t"}"#);
        assert_eq!(
            dress(Some(&bare), Era::Legacy, &sender(), None).expect("params").as_str(),
            r#"{"name":"t"}"#
        );
        assert_eq!(dress(None, Era::Legacy, &sender(), None), None);
        assert_eq!(
            dress(Some(&raw(r#"{"name":"t"}"#)), Era::Legacy, &sender(), Some(&raw("9")))
                .expect("params")
                .as_str(),
            r#"{"name":"t","_meta":{"progressToken":9}}"#
        );
    }
}
