//! Subscriptions to resources: `resources/subscribe` of legacy sessions, and the resources of a
//! `subscriptions/listen`.
//!
//! Invariants: a subscription belongs to one mailbox and ends with it. The first subscriber of a
//! resource gets the server's own answer, refusals included. One mailbox has at most
//! [`MAX_SUBSCRIPTIONS`]. For a caller that may not read resources, no server is asked.

use std::sync::Arc;

use super::agreed;
use crate::manager;
use crate::manager::catalog::ServerResource;
use crate::notifications::{MAX_SUBSCRIPTIONS, Mailbox};
use crate::notifications::{Subscription, Topic};
use crate::{Caller, Gateway, era, error, params, resources};
use auth::Action;
use json::Raw;
use protocol::{Era, ErrorCode, ErrorObject, Reply};
use runtime::telemetry::limit::Limit;
use upstream::{EventSender, Subject, WatchRefusal};

/// Handles `resources/subscribe`.
pub async fn subscribe(gateway: &Gateway, caller: &Caller, params: Option<&Raw>) -> Reply {
    if !caller.principal.may(Action::Read) {
        return Err(error::forbidden("subscribe to resources"));
    }
    let uri = uri_of(params)?;
    let Some(mailbox) = &caller.mailbox else { return Ok(Raw::empty_object()) };
    if mailbox.is_subscribed(&uri) {
        return Ok(Raw::empty_object());
    }
    if mailbox.is_full() {
        return Err(Limit::Subscriptions.met(too_many()));
    }
    let (answer, subscription) = gateway.subscription(caller, mailbox, &uri).await?;
    mailbox.subscribe(uri, subscription).map_err(|_| too_many())?;
    Ok(if answer.is_object() { answer } else { Raw::empty_object() })
}

/// Handles `resources/unsubscribe`. Without a subscription it has no effect.
pub fn unsubscribe(caller: &Caller, params: Option<&Raw>) -> Reply {
    let uri = uri_of(params)?;
    if let Some(mailbox) = &caller.mailbox {
        mailbox.unsubscribe(&uri);
    }
    Ok(Raw::empty_object())
}

/// Subscribes `mailbox` to all of `uris` and returns the accepted ones in order. Returns none for a
/// caller that may not read them. Refused URIs are left out of the answer and are not an error.
pub(super) async fn subscribe_all(
    gateway: &Gateway,
    caller: &Caller,
    mailbox: &Arc<Mailbox>,
    uris: Vec<String>,
) -> Vec<String> {
    if !caller.principal.may(Action::Read) {
        return Vec::new();
    }
    let one = |uri: String| async move {
        params::short_uri(&uri, "uri").ok()?;
        let (_, subscription) = gateway.subscription(caller, mailbox, &uri).await.ok()?;
        mailbox.subscribe(uri.clone(), subscription).ok().map(|()| uri)
    };
    agreed(uris.into_iter().map(one)).await
}

impl Gateway {
    /// Subscribes `mailbox` at a server that has `uri`, and returns the server's answer.
    async fn subscription(
        &self,
        caller: &Caller,
        mailbox: &Arc<Mailbox>,
        uri: &str,
    ) -> Result<(Raw, Subscription), ErrorObject> {
        let refused = |failure: &manager::Error| resources::refused(caller, failure);
        let places =
            self.manager.places(caller.viewer(), uri, None).await.map_err(|failure| refused(&failure))?;
        let mut refusal = None;
        for ServerResource { server, uri: there } in places {
            let there: Arc<str> = there.into();
            // The listener is registered before the server is asked, so that the first notification
            // finds it.
            let topic = Topic::Resource(server.clone(), there.clone());
            let subscription = self.router.subscribe(topic, uri, (mailbox.pending(), &caller.affinity));
            self.open(caller, &server, &EventSender::none()).await;
            let client = (caller.principal.id(), Some(&caller.affinity));
            match self.manager.watch(client, &server, Subject::Resource(there)).await {
                Ok(Ok((answer, watching))) => return Ok((answer, subscription.kept_by(watching))),
                Ok(Err(WatchRefusal::Refused(words))) => refusal = refusal.or(Some(words)),
                Ok(Err(WatchRefusal::LeftOut)) => {
                    refusal = refusal.or(Some(error::not_acknowledged(&server, uri)));
                }
                Err(failure) => refusal = refusal.or(Some(refused(&failure))),
            }
        }
        Err(refusal.unwrap_or_else(|| era::no_resource(caller, uri)))
    }
}

fn uri_of(params: Option<&Raw>) -> Result<String, ErrorObject> {
    let found = params.and_then(|params| params.get("uri"));
    let uri = found.as_ref().and_then(|uri| uri.read::<String>().ok()).ok_or_else(|| {
        let text = "params.uri must be a string; it says which resource";
        params::bad(text, "uri", found.as_ref(), "a string")
    })?;
    params::short_uri(&uri, "uri")?;
    Ok(uri)
}

fn too_many() -> ErrorObject {
    let text = format!(
        "a session can be subscribed to {MAX_SUBSCRIPTIONS} resources at a time, as far as the memory budget has room; unsubscribe from another one first"
    );
    error::refusal(ErrorCode::TooManySubscriptions, Era::Legacy, &text)
}
