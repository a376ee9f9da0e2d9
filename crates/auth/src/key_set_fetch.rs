//! Fetches the key set of a login service, and finds it by the metadata of the issuer.
//!
//! Invariants: a response has at most [`LIMITS`], and a redirect is followed within its origin only. Metadata counts only if it names exactly
//! the configured issuer. The operator wrote the URLs of the issuer and of `jwks_url`, so they may have any address. A
//! key set on another host, which the metadata names, must have a public address and HTTPS.
//!
//! Source: RFC 8414, sections 3 and 5; `OpenID` Connect Discovery 1.0, section 4.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::Value;
use url::Url;

use super::key_set::KeySet;
use super::token_config::KeySetLocation;
use net::http::{Client, DialPolicy, Network, RequestBuilder, ResponseLimits};
use runtime::shutdown::Shutdown;

/// Limits of one response.
const LIMITS: ResponseLimits = ResponseLimits { bytes: 64 * 1024, time: Duration::from_secs(5) };

/// Fetches the key set. An error is for the log.
pub(super) async fn fetch(key_set: &KeySet, tasks: &Shutdown) -> Result<Bytes, String> {
    match &key_set.location {
        KeySetLocation::Url(url) => get(url, (DialPolicy::Anywhere, &key_set.network), tasks).await,
        KeySetLocation::Issuer(issuer) => {
            let url = discovered(issuer, key_set, tasks).await?;
            let dial_policy = dial_policy_of(&url, issuer).ok_or_else(|| {
                format!("the metadata of the issuer names {url}, which must be an HTTPS URL; set `jwks_url`")
            })?;
            get(&url, (dial_policy, &key_set.network), tasks).await
        }
    }
}

/// The addresses that a key set may have which the metadata of `issuer` names.
fn dial_policy_of(url: &Url, issuer: &Url) -> Option<DialPolicy> {
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_same_host = url.host() == issuer.host();
    let is_safe = url.scheme() == "https" || (is_same_host && url.scheme() == issuer.scheme());
    (is_plain && is_safe).then_some(if is_same_host { DialPolicy::Anywhere } else { DialPolicy::Public })
}

/// Returns the URL of the key set that the metadata of `issuer` names.
async fn discovered(issuer: &Url, key_set: &KeySet, tasks: &Shutdown) -> Result<Url, String> {
    let mut failures = Vec::new();
    for place in places(issuer) {
        let document = get(&place, (DialPolicy::Anywhere, &key_set.network), tasks).await;
        match document.and_then(|document| key_set_of(&document, &key_set.issuer)) {
            Ok(url) => return Ok(url),
            Err(failure) => failures.push(failure),
        }
    }
    Err(failures.join("; "))
}

/// The URLs of the metadata, the most common one first.
fn places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("{path}/.well-known/openid-configuration"),
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if path.is_empty() {
        // Without a path, the first and the last place are one.
        paths.truncate(2);
    }
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url
    };
    paths.into_iter().map(at).collect()
}

fn key_set_of(document: &[u8], issuer: &str) -> Result<Url, String> {
    let document: Value =
        serde_json::from_slice(document).map_err(|_| "the metadata of the issuer is not JSON".to_owned())?;
    if document["issuer"] != issuer {
        return Err(
            "the metadata is of another issuer than `jwt.issuer`; compare the slash at the end".into()
        );
    }
    let url = document["jwks_uri"].as_str().and_then(|url| Url::parse(url).ok());
    url.filter(Url::has_host).ok_or_else(|| "the metadata of the issuer names no `jwks_uri`".into())
}

async fn get(url: &Url, way: (DialPolicy, &Network), tasks: &Shutdown) -> Result<Bytes, String> {
    let failed = |error: net::http::Error| format!("{url}: {error}");
    let client = Client::new(url, way, 0, tasks).map_err(failed)?;
    let response = client.fetch(RequestBuilder::new(Method::GET, url.clone()), LIMITS).await;
    let response = response.map_err(failed)?;
    match response.status {
        StatusCode::OK => Ok(response.body),
        status => Err(format!("{url}: the status is {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    #[test]
    fn metadata_is_searched_at_every_place_of_the_specifications() {
        let found = |issuer| places(&url(issuer)).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            found("https://h/realms/a/"),
            [
                "https://h/realms/a/.well-known/openid-configuration",
                "https://h/.well-known/oauth-authorization-server/realms/a",
                "https://h/.well-known/openid-configuration/realms/a",
            ]
        );
        assert_eq!(
            found("https://h/"),
            [
                "https://h/.well-known/openid-configuration",
                "https://h/.well-known/oauth-authorization-server"
            ]
        );
    }

    #[test]
    fn metadata_of_another_issuer_names_no_keys() {
        let read = |json: &str| key_set_of(json.as_bytes(), "https://h/a").map(|url| url.to_string());
        let good = r#"{"issuer": "https://h/a", "jwks_uri": "https://h/keys"}"#;
        assert_eq!(read(good).as_deref(), Ok("https://h/keys"));
        for bad in [
            r#"{"issuer": "https://h/a/", "jwks_uri": "https://h/keys"}"#,
            r#"{"jwks_uri": "https://h/keys"}"#,
            r#"{"issuer": "https://h/a"}"#,
            r#"{"issuer": "https://h/a", "jwks_uri": "/keys"}"#,
            "[]",
            "<html>",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_set_on_another_host_must_be_public_and_use_https() {
        let dial_policy = |at, issuer| dial_policy_of(&url(at), &url(issuer));
        assert_eq!(dial_policy("https://h:8443/keys", "https://h/"), Some(DialPolicy::Anywhere));
        assert_eq!(
            dial_policy("http://127.0.0.1:81/keys", "http://127.0.0.1:80/"),
            Some(DialPolicy::Anywhere)
        );
        assert_eq!(dial_policy("https://keys.example/", "https://h/"), Some(DialPolicy::Public));
        assert_eq!(dial_policy("http://h/keys", "https://h/"), None);
        assert_eq!(dial_policy("http://169.254.169.254/keys", "http://h/"), None);
        assert_eq!(dial_policy("https://a:b@h/keys", "https://h/"), None);
    }
}
