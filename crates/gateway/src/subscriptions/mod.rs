//! Subscriptions of clients: changes of lists, updates of resources.
//!
//! A legacy session subscribes by opening its stream and by `resources/subscribe`, a modern client by
//! `subscriptions/listen`. Both have a [`Mailbox`], from which a [`Feed`] reads. Source: 2026-07-28
//! `basic/patterns/subscriptions`; `server/resources` and `basic/transports` of the earlier revisions.

mod feed;
mod resources;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use tokio::time::timeout;

pub use feed::Feed;
pub use resources::{subscribe, unsubscribe};

use super::caller::Caller;
use super::{Gateway, era, params, tasks};
use crate::manager::{Scope, Snapshot};
use crate::notifications::{MAX_SUBSCRIPTIONS, Mailbox};
use json::Raw;
use protocol::feature::{List, Lists};
use protocol::{ErrorObject, Notification, Reply, RequestId, meta, method};
use upstream::EventSender;

/// Parameter with the requested subscriptions.
const FILTER: &str = "notifications";
/// Limit of names that are read from one filter; a listener may subscribe to a quarter of them.
const MAX_NAMED: usize = 4 * MAX_SUBSCRIPTIONS;
/// Its members with the URIs of resources and the ids of tasks.
const RESOURCES: &str = "resourceSubscriptions";
const TASKS: &str = "taskIds";
/// Limit of concurrent subscription requests of one stream.
const AT_A_TIME: usize = 16;
/// How long a stream waits for its servers before it starts without them.
const LISTEN_WAIT: Duration = Duration::from_secs(5);

/// Serves `subscriptions/listen`: acknowledges the accepted subscriptions, then sends notifications into `event_sender`
/// until Switchyard shuts down. Dropping the future ends the subscription.
pub async fn listen(
    gateway: &Gateway,
    caller: &Caller,
    request: (&RequestId, Option<&Raw>),
    event_sender: &EventSender,
) -> Reply {
    let (id, params) = request;
    let found = params.and_then(|params| params.get(FILTER));
    let filter = found.as_ref().filter(|filter| filter.is_object()).ok_or_else(|| {
        let text = "params.notifications must be an object that says what to listen to";
        params::bad(text, FILTER, found.as_ref(), "an object")
    })?;
    let (uris, ids) =
        (named(filter, RESOURCES, "an array of URIs")?, named(filter, TASKS, "an array of task ids")?);
    if !ids.is_empty() {
        tasks::check_extension(caller)?;
    }
    let manager = gateway.manager();
    let lists = honoured(&manager.seen_by(Some(&caller.affinity)), &caller.scope, filter);
    let mailbox = Arc::new(Mailbox::of(caller.principal.id()));
    mailbox.listen_to(lists, manager.revisions(caller.viewer(), &caller.principal));
    let mut feed = Feed::new(manager, caller, &mailbox);
    let uris = resources::subscribe_all(gateway, caller, &mailbox, uris).await;
    let ids = feed::follow_all(gateway, caller, &mailbox, ids).await;
    event_sender.deliver(tagged(acknowledged(lists, &uris, &ids), id)).await;
    loop {
        tokio::select! {
            () = gateway.shutdown.requested() => return Ok(ended(caller, id)),
            notice = next(gateway, caller, &mut feed) => event_sender.deliver(tagged(notice, id)).await,
        }
    }
}

/// Returns the next notification for the client.
async fn next(gateway: &Gateway, caller: &Caller, feed: &mut Feed) -> Notification {
    loop {
        let notice = feed.next().await;
        if let Some(notice) = feed::whole(gateway, caller, notice).await {
            return notice;
        }
    }
}

/// Runs `requested` concurrently and returns their results in order. Requests without a result in time are left out.
async fn agreed<'a>(
    requested: impl Iterator<Item = impl Future<Output = Option<String>> + Send + 'a>,
) -> Vec<String> {
    let in_time = |requested| async move { timeout(LISTEN_WAIT, requested).await.ok().flatten() }.boxed();
    let requested: Vec<_> = requested.take(MAX_SUBSCRIPTIONS).map(in_time).collect();
    stream::iter(requested).buffered(AT_A_TIME).filter_map(std::future::ready).collect().await
}

/// The lists of `filter` that a server in `scope` has, or may still turn out to have. Tools may always appear
/// later.
fn honoured(snapshot: &Snapshot, scope: &Scope, filter: &Raw) -> Lists {
    let requested = |list: &List| filter.get_as(list.filter()).unwrap_or(false);
    let may_come = snapshot.has_unreached(scope);
    let there = |list: &List| *list == List::Tools || may_come || snapshot.offers(scope, list.capability());
    List::ALL.into_iter().filter(|list| requested(list) && there(list)).collect()
}

/// Returns the names under `member` of `filter`, which must be `valid`, without duplicates. Names beyond the first
/// [`MAX_NAMED`] are not read.
fn named(filter: &Raw, member: &str, valid: &str) -> Result<Vec<String>, ErrorObject> {
    let Some(found) = filter.get(member) else { return Ok(Vec::new()) };
    let bad = || {
        let place = format!("{FILTER}.{member}");
        params::bad(&format!("params.{place} must be {valid}"), &place, Some(&found), valid)
    };
    if found.bytes().first() != Some(&b'[') {
        return Err(bad());
    }
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    for name in found.elements().take(MAX_NAMED) {
        let name: String = name.read().map_err(|_| bad())?;
        if seen.insert(name.clone()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The acknowledgment with the accepted subscriptions.
fn acknowledged(lists: Lists, uris: &[String], ids: &[String]) -> Notification {
    let some = |names: &[String]| (!names.is_empty()).then(|| Raw::of(&names));
    let (yes, uris, ids) = (Raw::of(&true), some(uris), some(ids));
    let mut members: Vec<_> = lists.iter().map(|list| (list.filter(), Some(&yes))).collect();
    members.push((RESOURCES, uris.as_ref()));
    members.push((TASKS, ids.as_ref()));
    let notifications = Raw::empty_object().edit(&members);
    Notification {
        method: method::SUBSCRIPTIONS_ACKNOWLEDGED.into(),
        params: Some(Raw::empty_object().with("notifications", &notifications)),
    }
}

/// The result by which Switchyard ends a subscription.
fn ended(caller: &Caller, id: &RequestId) -> Raw {
    let result = era::own(caller, &Raw::empty_object());
    let meta = result.get("_meta").unwrap_or_else(Raw::empty_object);
    result.with("_meta", &meta.with(meta::SUBSCRIPTION_ID, id.raw()))
}

/// Adds the id of the subscribing request to a notification.
fn tagged(notice: Notification, id: &RequestId) -> Notification {
    let params = notice.params.unwrap_or_else(Raw::empty_object);
    let meta = meta::of(Some(&params)).unwrap_or_else(Raw::empty_object);
    let params = params.with("_meta", &meta.with(meta::SUBSCRIPTION_ID, id.raw()));
    Notification { method: notice.method, params: Some(params) }
}

#[cfg(test)]
mod builtin_tests;
#[cfg(test)]
mod followed_tests;
#[cfg(test)]
mod subscribed_tests;
#[cfg(test)]
mod tests;
