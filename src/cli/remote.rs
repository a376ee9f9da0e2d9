//! Requests of a command to the running gateway: its URL, its credential, and its answers.
//!
//! Invariants: the credential is sent to that URL only, and no error shows it. The URL comes from the command line, the
//! environment, or the listen address of the configuration file.
//!
//! Not here: what a command asks (`login`, `operate`).

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use http::{Method, StatusCode};
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use super::error::CommandError;
use super::{ConfigFile, visible};
use crate::config::{Config, Listener};
use json::Raw;
use net::http::{
    self as client, Client, DialPolicy, Network, RequestBuilder, Response, ResponseLimits, WholeResponse,
};
use runtime::shutdown::Shutdown;
use runtime::worker;

/// Lists of a gateway with thousands of tools are large, and a reconnection takes time.
pub(super) const LIMITS: ResponseLimits =
    ResponseLimits { bytes: 64 * 1024 * 1024, time: Duration::from_mins(1) };
/// The file that is read unless another one is named.
pub(super) const DEFAULT_FILE: &str = "mcp_servers.yaml";

/// Which running gateway.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunningGateway {
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The URL of the running gateway [default: `SWITCHYARD_LISTEN`, else the listen address of the configuration file].
    #[arg(long, env = "SWITCHYARD_URL", hide_env_values = true, value_name = "URL", value_parser = parse_url)]
    pub url: Option<Url>,
    /// The API key or token to send. Prefer the variable: other users of the machine can see arguments.
    #[arg(long, env = "SWITCHYARD_KEY", hide_env_values = true, value_name = "KEY", value_parser = parse_key)]
    pub key: Option<SecretString>,
}

impl CommandError {
    /// Adds the URL of `remote`, if another program answered there.
    pub(super) fn of(self, remote: &Remote) -> Self {
        match self {
            Self::Foreign { answer, .. } => Self::Foreign { url: remote.origin(), answer },
            other => other,
        }
    }
}

/// Runs `work` on a runtime of its own.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    let runtime = worker::runtime().map_err(|error| CommandError::Refused(error.to_string()))?;
    runtime.block_on(work)
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
    pub(super) fn of(running: &RunningGateway) -> Result<Self, CommandError> {
        let url = match &running.url {
            Some(url) => url.clone(),
            None => configured(&running.file)?,
        };
        Ok(Self { key: running.key.clone(), ..Self::at(url)? })
    }

    /// The gateway at `url`, without a credential.
    pub(super) fn at(url: Url) -> Result<Self, CommandError> {
        let client = Client::new(&url, (DialPolicy::Anywhere, &Network::default()), 1, &Shutdown::new());
        let client = client.map_err(|error| CommandError::Refused(error.to_string()))?;
        Ok(Self { client, url, key: None })
    }

    /// Returns the URL of the gateway without its path, user and password.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Asks for the login of `server`.
    pub(super) async fn login<T: for<'a> Deserialize<'a>>(
        &self,
        method: Method,
        server: &str,
    ) -> Result<T, CommandError> {
        let answer = self.rest(method, &["servers", server, "login"], &[]).await?;
        answer.read().map_err(|_| not_a_gateway())
    }

    /// Asks a route of the REST API, and returns its answer as it was written.
    pub(super) async fn rest(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Raw, CommandError> {
        let request = self.request(method, &[&["api", "v1", "mcp"], path].concat()).query(query);
        Raw::parse(&self.whole(request).await?.body).map_err(|_| not_a_gateway())
    }

    /// Sends a request and returns its whole answer, which has the status 200.
    pub(super) async fn whole(&self, request: RequestBuilder) -> Result<WholeResponse, CommandError> {
        let response = self.client.fetch(request, LIMITS).await.map_err(|error| self.lost(&error))?;
        if response.status == StatusCode::OK { Ok(response) } else { Err(refused(&response)) }
    }

    /// Sends a request without the credential.
    pub(super) async fn without_key(
        &self,
        method: Method,
        path: &[&str],
        limits: ResponseLimits,
    ) -> Result<WholeResponse, CommandError> {
        let request = RequestBuilder::new(method, self.url.clone()).below(path);
        self.client.fetch(request, limits).await.map_err(|error| self.lost(&error))
    }

    /// Asks whether Switchyard answers, without the credential. Returns its version, which it does not tell to every host name.
    pub(super) async fn identify(
        &self,
        limits: ResponseLimits,
    ) -> Result<Option<Option<String>>, CommandError> {
        let health = self.without_key(Method::GET, &["health"], limits).await?;
        let Ok(body) = Raw::parse(&health.body) else { return Ok(None) };
        let version = body.text("version").map(Cow::into_owned);
        let is_health = health.status == StatusCode::OK && version.is_some() && body.get("status").is_some();
        // It answers to other names only.
        let is_refusal = body.text("code").is_some_and(|code| code == "host_not_allowed");
        Ok((is_health || is_refusal).then_some(version))
    }

    /// Begins a request below the URL of the gateway, with the credential.
    pub(super) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let request = RequestBuilder::new(method, self.url.clone()).below(path);
        match &self.key {
            Some(key) => request.bearer(key),
            None => request,
        }
    }

    /// Sends a request whose answer is read while it arrives.
    pub(super) async fn open(&self, request: RequestBuilder) -> Result<Response, CommandError> {
        self.client.request(request).await.map_err(|error| self.lost(&error))
    }

    /// Returns the failure for a request without a whole answer.
    pub(super) fn lost(&self, error: &client::Error) -> CommandError {
        match error {
            client::Error::Unwritable { .. } => CommandError::Usage(error.to_string()),
            client::Error::TooLarge { .. }
            | client::Error::MemoryExhausted
            | client::Error::Malformed { .. } => CommandError::Refused(error.to_string()),
            // hyper's words for bytes that are not HTTP.
            client::Error::Lost { reason } if reason.contains("invalid HTTP") => {
                CommandError::Foreign { url: self.origin(), answer: "it does not speak HTTP".into() }
            }
            _ => CommandError::Unreachable { url: self.origin(), reason: error.to_string() },
        }
    }
}

/// Returns the failure for an answer that no gateway writes.
pub(super) fn not_a_gateway() -> CommandError {
    CommandError::Foreign { url: String::new(), answer: "its answer is not that of a gateway".into() }
}

/// Returns the failure for an answer with `status` that no gateway writes.
pub(super) fn not_of_a_gateway(status: StatusCode) -> CommandError {
    if status.is_success() {
        return not_a_gateway();
    }
    CommandError::Foreign { url: String::new(), answer: format!("status {status}") }
}

/// Returns the failure for an answer with a problem document.
pub(super) fn refused(response: &WholeResponse) -> CommandError {
    of_status(response.status, &response.json().unwrap_or_default())
}

fn of_status(status: StatusCode, Problem { detail, hint }: &Problem) -> CommandError {
    // Each refusal of a gateway says why.
    if detail.is_empty() {
        return not_of_a_gateway(status);
    }
    of_text(status, detail, hint)
}

/// Returns the failure for a refusal with `status`. Its texts may come from a server.
pub(super) fn of_text(status: StatusCode, detail: &str, hint: &str) -> CommandError {
    let hint = if hint.is_empty() || detail.contains(hint) { String::new() } else { format!(" ({hint})") };
    let text = visible::line(&format!("{detail}{hint}"));
    match status {
        StatusCode::UNAUTHORIZED => CommandError::Denied { reason: text, needed: "NAME" },
        StatusCode::FORBIDDEN => CommandError::Denied { reason: text, needed: "NAME --role ROLE" },
        _ => CommandError::Refused(text),
    }
}

/// Returns the URL at which the gateway of `file` listens, unless `SWITCHYARD_LISTEN` names another address as for `serve`.
/// Without a file, that is the default of a gateway. Nothing else in the file matters.
fn configured(file: &ConfigFile) -> Result<Url, CommandError> {
    let listener = if file.config == Path::new(DEFAULT_FILE) && !file.config.exists() {
        Listener::default()
    } else {
        let read = Config::load_listener(&file.config, &super::environment);
        read.map_err(|error| CommandError::Configuration(error.to_string()))?
    };
    Ok(listener.or_named(&super::environment).url())
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
    fn a_refusal_is_told_in_the_words_of_the_gateway_and_without_control_characters() {
        let problem = Problem { detail: "no\u{1b}[31m way".into(), hint: "turn back".into() };
        let failed = of_status(StatusCode::CONFLICT, &problem);
        assert_eq!(failed, CommandError::Refused(r"no\u{1b}[31m way (turn back)".into()));
        let detail = "no tool \"a\"; did you mean \"b\"?; not reached yet: c";
        let once = of_text(StatusCode::NOT_FOUND, detail, "did you mean \"b\"?");
        assert_eq!(once, CommandError::Refused(detail.into()));
        let foreign = of_status(StatusCode::FORBIDDEN, &Problem::default());
        assert!(matches!(foreign, CommandError::Foreign { answer, .. } if answer.contains("403")));
        for text in ["", "gw", "ftp://gw", "http://", "http://gw/?a=b", "http://gw/#a"] {
            assert!(parse_url(text).is_err(), "{text}");
        }
        assert!(parse_url("https://gw.example/below").is_ok());
    }
}
