//! Requests of a command to the running gateway: its URL, its credential, and its answers.
//!
//! Invariants: the credential is sent to that URL only, and no error shows it. The URL comes from the command line, the
//! environment, or the listen address of the configuration file.
//!
//! Not here: what a command asks (`login`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http::{Method, StatusCode};
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use super::ConfigFile;
use net::http::{Client, Reach, RequestBuilder, ResponseLimits};
use runtime::shutdown::Shutdown;

const LIMITS: ResponseLimits = ResponseLimits { bytes: 256 * 1024, time: Duration::from_secs(30) };

/// Which running gateway.
#[derive(Debug, Clone, clap::Args)]
pub struct Running {
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The URL of the running gateway [default: the listen address of the configuration file].
    #[arg(long, env = "SWITCHYARD_URL", hide_env_values = true, value_name = "URL", value_parser = parse_url)]
    pub url: Option<Url>,
    /// The API key or token to send. Prefer the variable: other users of the machine can see arguments.
    #[arg(long, env = "SWITCHYARD_KEY", hide_env_values = true, value_name = "KEY", value_parser = parse_key)]
    pub key: Option<SecretString>,
}

/// Why a request did not get what it asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failed {
    /// The configuration file gives no URL.
    #[error("{0}\nname the running gateway with --url or SWITCHYARD_URL instead")]
    Configuration(String),
    /// No gateway answered.
    #[error("cannot reach the gateway at {url}: {reason}; is it running? name another one with --url")]
    Unreachable {
        /// The URL, without its path.
        url: String,
        /// The error of the connection.
        reason: String,
    },
    /// The gateway refused the credential, or its role does not suffice.
    #[error("{0}; give a credential in SWITCHYARD_KEY")]
    Denied(String),
    /// Another refusal or failure, in the words of the gateway.
    #[error("{0}")]
    Refused(String),
}

/// A problem document of the gateway.
#[derive(Default, Deserialize)]
struct Problem {
    #[serde(default)]
    detail: String,
    #[serde(default)]
    hint: String,
}

/// A gateway that can be asked.
pub(super) struct Remote {
    client: Client,
    url: Url,
    key: Option<SecretString>,
}

impl Remote {
    pub(super) fn of(running: &Running) -> Result<Self, Failed> {
        let url = match &running.url {
            Some(url) => url.clone(),
            None => configured(&running.file)?,
        };
        let client = Client::new(&url, Reach::Anywhere, 1, &Shutdown::new());
        let client = client.map_err(|error| Failed::Refused(error.to_string()))?;
        Ok(Self { client, url, key: running.key.clone() })
    }

    /// Asks for the login of `server`.
    pub(super) async fn login<T: for<'a> Deserialize<'a>>(
        &self,
        method: Method,
        server: &str,
    ) -> Result<T, Failed> {
        let path = ["api", "v1", "mcp", "servers", server, "login"];
        let mut request = RequestBuilder::new(method, self.url.clone()).below(&path);
        if let Some(key) = &self.key {
            request = request.bearer(key);
        }
        let response = self.client.fetch(request, LIMITS).await.map_err(|error| Failed::Unreachable {
            url: self.url.origin().ascii_serialization(),
            reason: error.to_string(),
        })?;
        if response.status == StatusCode::OK {
            let unknown =
                |_| Failed::Refused("the answer is not that of a gateway; look at --url".to_owned());
            return response.json().map_err(unknown);
        }
        let problem: Problem = response.json().unwrap_or_default();
        Err(of_status(response.status, &problem))
    }
}

fn of_status(status: StatusCode, Problem { detail, hint }: &Problem) -> Failed {
    let text = match (detail.is_empty(), hint.is_empty()) {
        (true, _) => format!("the gateway answered with the status {status}"),
        (false, true) => detail.clone(),
        (false, false) => format!("{detail} ({hint})"),
    };
    // The text goes to a terminal.
    let text = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failed::Denied(text),
        _ => Failed::Refused(text),
    }
}

/// Returns the URL at which the gateway of `file` listens.
fn configured(file: &ConfigFile) -> Result<Url, Failed> {
    let config = file.load().map_err(|error| Failed::Configuration(error.to_string()))?;
    let (address, tls) = (reachable(config.server.listen), config.server.tls.is_some());
    let scheme = if tls { "https" } else { "http" };
    Url::parse(&format!("{scheme}://{address}/")).map_err(|error| Failed::Configuration(error.to_string()))
}

/// Returns an address to connect to for one to listen on: all addresses of a machine include loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Parses `--url`.
fn parse_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.filter(|url| url.has_host() && url.query().is_none() && url.fragment().is_none());
    url.ok_or("expected the URL of the gateway, such as http://127.0.0.1:8080")
}

#[allow(clippy::unnecessary_wraps)] // the form that clap asks for
fn parse_key(text: &str) -> Result<SecretString, std::convert::Infallible> {
    Ok(SecretString::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_to_connect_to_follows_from_the_one_to_listen_on() {
        for (listen, connect) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("10.0.0.5:80", "10.0.0.5:80"),
        ] {
            let [listen, connect] = [listen, connect].map(|text| text.parse().expect("an address"));
            assert_eq!(reachable(listen), connect);
        }
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_gateway_and_without_control_characters() {
        let problem = Problem { detail: "no\u{1b}[31m way".into(), hint: "turn back".into() };
        let failed = of_status(StatusCode::CONFLICT, &problem);
        assert_eq!(failed, Failed::Refused("no?[31m way (turn back)".into()));
        let denied = of_status(StatusCode::FORBIDDEN, &Problem::default());
        assert!(matches!(denied, Failed::Denied(text) if text.contains("403")));
        for text in ["", "gw", "ftp://gw", "http://", "http://gw/?a=b", "http://gw/#a"] {
            assert!(parse_url(text).is_err(), "{text}");
        }
        assert!(parse_url("https://gw.example/below").is_ok());
    }
}
