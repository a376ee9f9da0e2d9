//! Asks the gateway what the screen shows.
//!
//! Invariants: one sample has at most [`PATIENCE`], so a gateway that hangs is seen. An event stream that ends is opened
//! again after its last event.
//!
//! Source: the data of the dashboard: `/servers`, `/circuit-breakers`, `/metrics`, `/events` and `/ui/session`.

use std::time::Duration;

use futures_util::try_join;
use http::Method;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use super::super::super::remote::{Failed, Remote};
use super::super::events::Events;
use super::model::{Action, ServerCommand};
use super::seen::{EndedCall, StatusSample, shown, tools};
use json::Raw;

/// The longest time for the answers of one sample.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before an ended event stream is opened again.
const PAUSE: Duration = Duration::from_secs(2);

/// Something new.
pub(super) enum SourceEvent {
    Sample(Result<StatusSample, Failed>),
    Call(EndedCall),
    /// Events that were not received.
    Missed(u64),
}

/// Asks for one sample.
pub(super) async fn sample(remote: &Remote) -> Result<StatusSample, Failed> {
    let metrics = remote.request(Method::GET, &["metrics"]);
    let answers = async {
        try_join!(
            remote.rest(Method::GET, &["servers"], &[]),
            remote.rest(Method::GET, &["circuit-breakers"], &[]),
            remote.whole(metrics),
        )
    };
    let late = |_| Failed::Unreachable {
        url: remote.origin(),
        reason: format!("no answer within {} s", PATIENCE.as_secs()),
    };
    let (servers, breakers, metrics) = timeout(PATIENCE, answers).await.map_err(late)??;
    StatusSample::read(&servers, &breakers, &String::from_utf8_lossy(&metrics.body))
}

/// Returns the role of the credential, if the gateway says it.
pub(super) async fn role(remote: &Remote) -> Option<String> {
    let session = remote.whole(remote.request(Method::GET, &["ui", "session"]));
    let session = timeout(PATIENCE, session).await.ok()?.ok()?;
    Some(shown(&Raw::parse(&session.body).ok()?.text("role")?))
}

/// Asks for the tools of a server.
pub(super) async fn tools_of(remote: &Remote, server: &str) -> Result<Vec<(String, String)>, String> {
    let list = remote.rest(Method::GET, &["servers", server, "tools"], &[]).await;
    list.and_then(|list| tools(&list)).map_err(|failed| failed.to_string())
}

/// Does an action, and returns what to say of it.
pub(super) async fn act(remote: &Remote, action: &Action) -> String {
    let server = action.server.as_str();
    let (path, done) = match action.deed {
        ServerCommand::ResetBreaker => (["circuit-breakers", server, "reset"], "the breaker is closed"),
        ServerCommand::Reconnect => (["servers", server, "reconnect"], "connected again"),
    };
    match remote.rest(Method::POST, &path, &[]).await {
        Ok(_) => shown(&format!("{server}: {done}")),
        Err(failed) => shown(&format!("{server}: {failed}")),
    }
}

/// Tells a sample every `interval`, and calls as they end. It has no end of its own.
pub(super) async fn follow(remote: &Remote, interval: Duration, told: &Sender<SourceEvent>) {
    let samples = async {
        loop {
            sleep(interval).await;
            // Without a receiver, this future is about to be dropped.
            let _ = told.send(SourceEvent::Sample(sample(remote).await)).await;
        }
    };
    let calls = async {
        let mut last = None;
        loop {
            // Why a stream ended is seen in the next sample, if it matters.
            let _ = read(remote, &mut last, told).await;
            sleep(PAUSE).await;
        }
    };
    Box::pin(futures_util::future::join(samples, calls)).await;
}

/// Reads one event stream to its end.
async fn read(remote: &Remote, last: &mut Option<Vec<u8>>, told: &Sender<SourceEvent>) -> Result<(), Failed> {
    let mut events = Events::open(remote, &[("kind", "call_ended")], last.as_deref()).await?;
    while let Some(event) = events.next().await? {
        let Ok(data) = Raw::parse(&event.data) else { continue };
        let what = match &*event.name {
            b"call_ended" => SourceEvent::Call(EndedCall::read(&data)),
            b"gap" => SourceEvent::Missed(data.get_as("missed").unwrap_or(0)),
            _ => continue,
        };
        let _ = told.send(what).await;
        *last = events.last_id().or(last.take());
    }
    Ok(())
}
