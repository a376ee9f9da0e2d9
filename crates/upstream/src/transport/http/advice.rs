//! Advice about a server that cannot be connected to, appended to the reason of a failed connect.
//!
//! Invariants: the kind of the error stays, apart from HTTP 421, which becomes a failed connect. A challenge of the
//! server is quoted escaped and clipped. No URL or header of the configuration is quoted. Calls on a live connection
//! get no advice.

use std::sync::{Mutex, PoisonError};

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, StatusCode};
use url::Url;

use crate::error::Error;
use protocol::sanitize::shown;

/// Variables that make other programs use a proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const NO_TLS: &str = "the port does not speak TLS; write `http://` in `url`, or name the port that does";
const TLS: &str = "the port may speak TLS; write `https://` in `url`";
const HOST: &str = "the server refuses the host name of `url`; add it to the hosts that the server allows, or set \
                    the header that it expects with `headers: {Host: localhost:PORT}`";
const LOGIN: &str = "set `auth: {bearer: \"${NAME}\"}` if you have a token; for a server with a login (OAuth) set \
                     `auth: oauth` and run `switchyard login SERVER`";

/// The last `WWW-Authenticate` of one server.
#[derive(Debug, Default)]
pub(super) struct Challenge(Mutex<Option<String>>);

impl Challenge {
    /// Records the challenge of a 401.
    pub(super) fn record(&self, status: StatusCode, headers: &HeaderMap) {
        if status != StatusCode::UNAUTHORIZED {
            return;
        }
        let challenge_text: Vec<_> =
            headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|v| v.to_str().ok()).collect();
        let challenge_text = (!challenge_text.is_empty()).then(|| shown(&challenge_text.join(", ")));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = challenge_text;
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Adds advice to `error`, the failure to connect to the server at `url`.
pub(super) fn advise(error: Error, (url, has_proxy): (&Url, bool), challenge: &Challenge) -> Error {
    match error {
        Error::AuthFailed { reason } if reason.starts_with("HTTP 401") => {
            let challenge_text = challenge
                .get()
                .map_or_else(String::new, |challenge_text| format!(", WWW-Authenticate: {challenge_text}"));
            Error::AuthFailed { reason: format!("{reason}{challenge_text}; {LOGIN}") }
        }
        // Common SDKs send 421 for a host that is not in their list.
        Error::Status { status: status @ 421, detail, .. } => {
            Error::Connect { reason: format!("the server answered HTTP {status}{detail}; {HOST}") }
        }
        Error::Connect { reason } => {
            let variable = proxy_variable().filter(|_| !has_proxy);
            let advice = advice_for(&reason, url.scheme() == "https", variable);
            Error::Connect { reason: format!("{reason}{advice}") }
        }
        other => other,
    }
}

/// Returns advice about `reason` with a separator, or an empty text.
fn advice_for(reason: &str, is_tls: bool, proxy: Option<&str>) -> String {
    let says = |words: &[&str]| words.iter().any(|word| reason.to_ascii_lowercase().contains(word));
    let advice = if is_tls && says(&["invalidcontenttype", "corrupt message"]) {
        NO_TLS
    } else if !is_tls && says(&["invalid http version"]) {
        TLS
    } else if says(&["invalid host", "host header", "host not allowed"]) {
        HOST
    } else if let Some(name) =
        proxy.filter(|_| says(&["connection refused", "took too long", "timed out", "dns", "unreachable"]))
    {
        return format!(
            "; {name} is set, but Switchyard connects to servers directly; set `proxy: environment` in the file to use it"
        );
    } else {
        return String::new();
    };
    format!("; {advice}")
}

/// Returns the name of a proxy variable that is set in the environment of this process.
pub fn proxy_variable() -> Option<&'static str> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    PROXY_VARIABLES.into_iter().find(is_set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_the_reason() {
        let proxy = Some("HTTPS_PROXY");
        for (reason, is_tls, proxy, expected) in [
            ("received corrupt message of type InvalidContentType", true, None, "`http://`"),
            ("invalid HTTP version parsed", false, None, "`https://`"),
            ("the server refused initialize: Invalid Host: gw (-32000)", false, None, "Host: localhost"),
            ("tcp connect error: Connection refused", true, proxy, "HTTPS_PROXY is set"),
            ("tcp connect error: Connection refused", true, None, ""),
            ("the server refused initialize: no (-32000)", true, proxy, ""),
        ] {
            let advice = advice_for(reason, is_tls, proxy);
            assert!(
                advice.contains(expected) && advice.is_empty() == expected.is_empty(),
                "{reason}: {advice}"
            );
        }
    }
}
