//! The gateway that runs already: whether it is Switchyard, its version, and the configuration that it read.
//!
//! Invariant: the credential is sent only to a program that answered as Switchyard does.

use std::time::Duration;

use http::{Method, StatusCode};

use super::super::remote::{Failed, Remote, RunningGateway, block_on};
use json::Raw;
use net::http::ResponseLimits;

/// A health report is short, and the gateway is near.
const LIMITS: ResponseLimits = ResponseLimits { bytes: 1 << 20, time: Duration::from_secs(3) };

/// A gateway that answered.
pub(super) struct Seen {
    /// Its version, if it tells it under the name by which it was asked.
    pub(super) version: Option<String>,
    /// Its configuration and when it was loaded, or why it does not show them.
    pub(super) configuration: Result<Raw, Failed>,
}

/// Asks for the gateway; `None` if there is no Switchyard.
pub(super) fn look(running: &RunningGateway) -> Option<Seen> {
    let remote = Remote::of(running).ok()?;
    let asked = async {
        let health = remote.without_key(Method::GET, &["health"], LIMITS).await?;
        let Ok(body) = Raw::parse(&health.body) else { return Ok(None) };
        let version = body.text("version").map(std::borrow::Cow::into_owned);
        let is_health = health.status == StatusCode::OK && version.is_some() && body.get("status").is_some();
        // It answers to other names only.
        let is_refusal = body.text("code").is_some_and(|code| code == "host_not_allowed");
        if !is_health && !is_refusal {
            return Ok(None);
        }
        let configuration = remote.rest(Method::GET, &["configuration"], &[]).await;
        Ok(Some(Seen { version, configuration }))
    };
    block_on(asked).ok().flatten()
}
