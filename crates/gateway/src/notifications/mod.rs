//! Notifications on their way to listeners: the subscriptions of each listener, what waits for it, and which notification
//! goes to whom.
//!
//! Not here: requests to subscribe, and the streams that listeners read (`subscriptions`).

mod mailbox;
mod notification_router;
mod pending;

pub(crate) use mailbox::{MAX_SUBSCRIPTIONS, Mailbox};
pub(crate) use notification_router::{NotificationRouter, Subscription, Topic};
