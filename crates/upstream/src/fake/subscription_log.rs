//! The notifications that clients requested from a server in memory: its subscriptions and its streams.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Notify;

use super::Fake;
use crate::connection::{Call, EventSender};
use json::Raw;
use protocol::{Notification, method};

/// The subscriptions and streams that clients requested.
pub(super) struct SubscriptionLog {
    subscribed: BTreeSet<String>,
    listening: Vec<String>,
    honours_resources: bool,
    end_streams: Arc<Notify>,
}

impl Default for SubscriptionLog {
    fn default() -> Self {
        let (subscribed, listening) = (BTreeSet::new(), Vec::new());
        Self { subscribed, listening, honours_resources: true, end_streams: Arc::default() }
    }
}

impl SubscriptionLog {
    /// Handles `resources/subscribe` or `resources/unsubscribe`.
    pub(super) fn subscribe(&mut self, call: &Call) {
        let uri = call.params.as_ref().and_then(|params| params.get_as("uri")).expect("a uri");
        if call.method == method::RESOURCES_SUBSCRIBE {
            self.subscribed.insert(uri);
        } else {
            self.subscribed.remove(&uri);
        }
    }

    /// Drops the subscriptions, as the end of a session does.
    pub(super) fn forget(&mut self) {
        self.subscribed.clear();
    }
}

impl Fake {
    /// The resources that legacy clients are subscribed to.
    pub fn subscribed(&self) -> Vec<String> {
        self.lock().subscription_log.subscribed.iter().cloned().collect()
    }

    /// The filters of the open notification streams, oldest first.
    pub fn listening(&self) -> Vec<String> {
        self.lock().subscription_log.listening.clone()
    }

    /// Makes the server acknowledge no resource from now on.
    pub fn honours_lists_only(&self) {
        self.lock().subscription_log.honours_resources = false;
    }

    /// Ends the open notification streams.
    pub fn end_streams(&self) {
        self.lock().subscription_log.end_streams.notify_waiters();
    }

    /// Acknowledges a notification stream and keeps it open.
    pub(super) async fn keep_open(&self, call: &Call, event_sender: &EventSender) {
        let params = call.params.clone().expect("a filter");
        let _open = OpenStream::new(self, &params);
        let end = Arc::clone(&self.lock().subscription_log.end_streams);
        event_sender.offer(self.acknowledged(&params));
        end.notified().await;
    }

    fn acknowledged(&self, params: &Raw) -> Notification {
        let filter = params.get("notifications").expect("a filter");
        let honours_all = self.lock().subscription_log.honours_resources;
        let honoured = if honours_all { filter } else { filter.edit(&[("resourceSubscriptions", None)]) };
        let params = Some(params.with("notifications", &honoured));
        Notification { method: method::SUBSCRIPTIONS_ACKNOWLEDGED.into(), params }
    }
}

/// A notification stream while it is open.
struct OpenStream {
    server: Fake,
    filter: String,
}

impl OpenStream {
    fn new(server: &Fake, params: &Raw) -> Self {
        let filter = params.get("notifications").expect("a filter").as_str().to_owned();
        server.lock().subscription_log.listening.push(filter.clone());
        Self { server: server.clone(), filter }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let open = &mut self.server.lock().subscription_log.listening;
        let at = open.iter().position(|filter| *filter == self.filter);
        open.remove(at.expect("it was open"));
    }
}
