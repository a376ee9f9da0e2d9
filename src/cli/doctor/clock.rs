//! The clock of this machine, compared with the `Date` of servers and the times in tokens.
//!
//! Invariant: a server gets one HEAD request without any credential. No part of a token is shown but its times.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use http::{Method, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::super::remote::block_on;
use super::Finding;
use super::subject::Subject;
use net::http::{Client, DialPolicy, Network, RequestBuilder};
use runtime::shutdown::Shutdown;
use upstream::config::{Http, Transport};

/// Tokens are accepted with clocks that differ by this much.
const TOLERANCE: Duration = Duration::from_mins(1);
/// How long a server has to answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
const SYNCHRONIZE: &str = "`timedatectl set-ntp true` if this machine is wrong; `date` shows its time";

/// Times of a JSON Web Token, in seconds since 1970 (RFC 7519, 4.1).
#[derive(Debug, Default, PartialEq, Deserialize)]
struct Times {
    exp: Option<f64>,
    nbf: Option<f64>,
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let servers: Vec<_> = subject.servers().filter_map(|server| Some((server, http(server)?))).collect();
    let now = SystemTime::now();
    let tokens = servers.iter().filter_map(|(server, http)| {
        let (found, fix) = http.headers.iter().find_map(|(name, value)| {
            times(value).filter(|_| *name == header::AUTHORIZATION).and_then(|times| judged(&times, now))
        })?;
        Some(Finding::problem(format!("{}: its token {found}", server.name)).fix(fix))
    });
    let mut findings: Vec<Finding> = tokens.collect();
    if !subject.arguments.offline {
        let differences = servers.iter().map(|(server, http)| difference(&http.url, &server.network));
        let all = block_on(async { Ok(join_all(differences).await) }).unwrap_or_default();
        let known: Vec<_> =
            servers.iter().zip(all).filter_map(|((server, _), all)| Some((server, all?))).collect();
        let wrong = known.iter().filter(|(_, (by, _))| *by > TOLERANCE);
        findings.extend(wrong.map(|(server, (by, is_ahead))| {
            let way = if *is_ahead { "behind" } else { "ahead of" };
            Finding::warning(format!(
                "the clock of this machine is {} s {way} that of {}",
                by.as_secs(),
                server.name
            ))
            .fix(SYNCHRONIZE)
        }));
        if findings.is_empty() && !known.is_empty() {
            findings.push(Finding::ok("the clock agrees with the servers"));
        }
    }
    findings
}

fn http(server: &upstream::Config) -> Option<&Http> {
    match &server.transport {
        Transport::Http(http) | Transport::Sse(http) => Some(http),
        _ => None,
    }
}

/// Returns by how much the clock of a server differs, and whether it is ahead.
async fn difference(url: &Url, network: &Network) -> Option<(Duration, bool)> {
    let client = Client::new(url, (DialPolicy::Anywhere, network), 1, &Shutdown::new()).ok()?;
    let mut plain = url.clone();
    // Neither fails: the URL has a host.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    plain.set_query(None);
    let response =
        tokio::time::timeout(RESPONSE_TIMEOUT, client.request(RequestBuilder::new(Method::HEAD, plain)));
    let response = response.await.ok()?.ok()?;
    let date = httpdate::parse_http_date(response.headers().get(header::DATE)?.to_str().ok()?).ok()?;
    let now = SystemTime::now();
    Some(date.duration_since(now).map_or_else(|earlier| (earlier.duration(), false), |later| (later, true)))
}

/// Reads the times of a token, if it is a JSON Web Token.
fn times(authorization: &SecretString) -> Option<Times> {
    let token = authorization.expose_secret().strip_prefix("Bearer ")?;
    let mut parts = token.trim().split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

/// Says what is wrong with the times of a token, and what to do.
fn judged(times: &Times, now: SystemTime) -> Option<(String, &'static str)> {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs_f64();
    match *times {
        Times { exp: Some(exp), .. } if exp < now => {
            Some((format!("expired {:.0} s ago", now - exp), "get a new token for `auth` below its name"))
        }
        Times { nbf: Some(nbf), .. } if nbf > now + TOLERANCE.as_secs_f64() => {
            Some((format!("is not valid for another {:.0} s", nbf - now), SYNCHRONIZE))
        }
        Times { .. } => None,
    }
}
