//! The members of a request's parameters that say what it is about.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::error::{self, InvalidParam};
use json::Raw;
use protocol::ErrorObject;
use protocol::uri::MAX_URI;
use runtime::telemetry::limit::Limit;

/// `params` and the text in its `member`, which says `what`.
pub(super) fn text<'a>(
    params: Option<&'a Raw>,
    member: &str,
    what: &str,
) -> Result<(Cow<'a, str>, &'a Raw), ErrorObject> {
    let params = params
        .ok_or_else(|| bad(&format!("params is missing; {member} says {what}"), member, None, "a string"))?;
    let text = params.part(member).ok_or_else(|| {
        bad(&format!("params.{member} is missing; it says {what}"), member, None, "a string")
    })?;
    let found = || params.get(member);
    let text = text.text().ok_or_else(|| {
        bad(&format!("params.{member} must be a string"), member, found().as_ref(), "a string")
    })?;
    Ok((text, params))
}

/// Refuses a URI that is longer than any listed one.
pub(super) fn short_uri(uri: &str, member: &str) -> Result<(), ErrorObject> {
    if uri.len() <= MAX_URI {
        return Ok(());
    }
    let text = format!("params.{member} has {} bytes; a URI has at most {MAX_URI}", uri.len());
    let valid = format!("a URI of at most {MAX_URI} bytes");
    Err(Limit::UriBytes.met(bad(&text, member, Some(&Raw::of(uri)), &valid)))
}

/// Refuses arguments that are no object.
pub(super) fn arguments(params: &Raw) -> Result<(), ErrorObject> {
    match params.part("arguments") {
        Some(arguments) if !arguments.is_object() => {
            let (text, found) = ("params.arguments must be an object", params.slice(arguments));
            Err(bad(text, "arguments", Some(&found), "an object"))
        }
        _ => Ok(()),
    }
}

/// `member` of the parameters is not `valid`.
pub(super) fn bad(text: &str, member: &str, found: Option<&Raw>, valid: &str) -> ErrorObject {
    let field = format!("params.{member}");
    let suggestion = format!("send {field} as {valid}");
    error::bad_input(text, InvalidParam { field: &field, found, valid, suggestion: &suggestion })
}

/// A digest of the members of `params` in any order, without `_meta`: what makes a request the one it is.
pub(super) fn digest(params: &Raw) -> String {
    let mut members: Vec<_> = params.members().filter(|(key, _)| key != "_meta").collect();
    members.sort_by(|one, other| one.0.cmp(&other.0));
    let mut digest = Sha256::new();
    for (key, value) in &members {
        for part in [key.as_bytes(), value.bytes()] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
    }
    URL_SAFE_NO_PAD.encode(digest.finalize())
}
