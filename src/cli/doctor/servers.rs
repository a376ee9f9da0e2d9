//! The servers, each connected to as `check --connect` does, with what to type for those that cannot be used.
//!
//! Not here: why a server cannot be used (`upstream`), and programs that are missing (`programs`).

use url::Url;

use super::super::connect_check::{self, Inspected};
use super::programs::stdio;
use super::subject::Subject;
use super::{Finding, counted};
use gateway::manager::ServerStatus;
use runtime::telemetry::untrusted;
use upstream::State;
use upstream::config::Transport;
use upstream::transport::stdio::find_program;

const TRUST: &str = "if you trust its certificate authority, copy that certificate to \
                     /usr/local/share/ca-certificates/NAME.crt and run `sudo update-ca-certificates`, or start Switchyard \
                     with `SSL_CERT_FILE=FILE`, a file with all authorities that it trusts";
const HOST: &str = "write the host name of the certificate in `url`";
const TIME: &str =
    "renew the certificate of the server; if it is good, correct the clock: `timedatectl set-ntp true`";

/// Words in the reason of a failed connect, and what to type.
const REASONS: &[(&str, &str)] = &[
    ("UnknownIssuer", TRUST),
    ("certificate not valid for name", HOST),
    ("certificate expired", TIME),
    ("certificate not valid yet", TIME),
];

/// Words in the reason if a URL leads to something else than an MCP endpoint.
const NO_ENDPOINT: &[&str] = &["HTTP 404", "HTTP 405", "the answer is not valid", "not a valid MCP message"];

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(config) = subject.config().filter(|_| !subject.arguments.offline) else { return Vec::new() };
    let mut manager = config.manager.clone();
    for server in &mut manager.servers {
        // It was found before.
        server.enabled &= stdio(server).is_none_or(|stdio| find_program(stdio).is_ok());
    }
    match connect_check::inspected(manager) {
        Ok(Ok(Inspected { servers, warnings })) => {
            let enabled = servers.iter().filter(|server| server.config.enabled);
            let warnings = warnings.iter().map(|text| Finding::warning(untrusted(text).to_string()));
            enabled.flat_map(judged).chain(warnings).collect()
        }
        Ok(Err(error)) => vec![Finding::problem(error.to_string())],
        Err(error) => vec![Finding::problem(format!("the servers cannot be contacted: {error}"))],
    }
}

fn judged(server: &ServerStatus) -> Vec<Finding> {
    let name = &server.config.name;
    if server.status.state != State::Ready {
        let reason = connect_check::reason(&server.status);
        if connect_check::waits_for_callers(server) {
            return vec![Finding::ok(format!("{name}: {reason}"))];
        }
        let found = Finding::problem(format!("{name}: {reason}"));
        return vec![Finding { fix: fix(&server.config, server.status.state, &reason), ..found }];
    }
    let notes = server.status.problems.iter().map(|problem| untrusted(problem).to_string());
    let notes = notes.chain(connect_check::shared_state(server));
    let warnings = notes.map(|note| Finding::warning(format!("{name}: {note}")));
    let ready = Finding::ok(format!("{name}: ready, {}", counted(server.tools, "tool")));
    [ready].into_iter().chain(warnings).collect()
}

/// Returns what to type for a server that cannot be used, if its reason does not say all.
fn fix(server: &upstream::Config, state: State, reason: &str) -> Option<String> {
    let name = &server.name;
    match state {
        State::LoginRequired => Some(format!("`switchyard login {name}`, while the gateway runs")),
        State::AuthFailed if has_credential(server) => {
            Some(format!("another token in `auth` or `headers` below `{name}:`, then `switchyard reload`"))
        }
        State::AuthFailed => Some(format!(
            "`auth: oauth` below `{name}:`, then `switchyard reload` and `switchyard login {name}`; or with a token: \
             `switchyard secret set {secret}` and `auth: {{bearer: \"${{secret:{secret}}}\"}}`",
            secret = secret_name(name)
        )),
        _ if NO_ENDPOINT.iter().any(|word| reason.contains(word)) => usual_url(server),
        // The reason says what a program needs, which does not inherit the authorities of Switchyard.
        _ if stdio(server).is_some() => None,
        _ => REASONS.iter().find(|(word, _)| reason.contains(word)).map(|(_, fix)| (*fix).to_owned()),
    }
}

/// The usual name of a variable or secret with the token of a server.
fn secret_name(server: &str) -> String {
    format!("{}_TOKEN", server.to_ascii_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}

/// Whether the configuration has a credential for the server.
fn has_credential(server: &upstream::Config) -> bool {
    match &server.transport {
        Transport::Http(http) | Transport::Sse(http) => !http.headers.is_empty() || http.token.is_some(),
        _ => true,
    }
}

/// Returns the line with the usual endpoint, if the URL names another one. A URL without a path is completed anyway.
fn usual_url(server: &upstream::Config) -> Option<String> {
    let Transport::Http(_) = &server.transport else { return None };
    let mut url = Url::parse(&server.target).ok().filter(|url| !matches!(url.path(), "/" | "/mcp"))?;
    url.set_path("/mcp");
    url.set_query(None);
    Some(format!("most servers answer at `/mcp`: `url: {url}` below `{}:`", server.name))
}
