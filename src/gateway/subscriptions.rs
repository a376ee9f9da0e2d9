//! Change notices: `subscriptions/listen` for modern clients, and what sessions of the legacy era
//! send by themselves.

use serde::Serialize;
use tokio::sync::watch;

use super::caller::Caller;
use super::era;
use crate::manager::Manager;
use crate::protocol::error::code;
use crate::protocol::feature::List;
use crate::protocol::{ErrorObject, Notification, Raw, Reply, RequestId, meta, method};
use crate::shutdown::Shutdown;
use crate::upstream::Outlet;

/// Waits for changes of the list that one caller sees.
pub struct Watch {
    count: watch::Receiver<u64>,
    seen: u64,
}

impl Watch {
    /// Watches from the list as it is now.
    pub fn new(manager: &Manager, caller: &Caller) -> Self {
        Self::since(manager, manager.snapshot().revision(&caller.scope, List::Tools))
    }

    /// Watches from the list with this revision: a change since then shows at once.
    pub fn since(manager: &Manager, seen: u64) -> Self {
        Self { count: manager.changes(), seen }
    }

    /// The revision it last showed.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// Resolves when the list is another one than last time; never when the manager has ended.
    /// Several changes at once are one.
    pub async fn changed(&mut self, manager: &Manager, caller: &Caller) {
        loop {
            let now = manager.snapshot().revision(&caller.scope, List::Tools);
            if now != self.seen {
                self.seen = now;
                return;
            }
            if self.count.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// The notice that the list of tools changed.
pub fn tools_changed() -> Notification {
    Notification { method: method::TOOLS_LIST_CHANGED.to_owned(), params: None }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Honoured {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
}

/// `subscriptions/listen`: says what is honoured, then sends notices into `outlet` until the
/// gateway shuts down. Dropping the future ends the subscription.
pub async fn listen(
    manager: &Manager,
    shutdown: &Shutdown,
    caller: &Caller,
    request: (&RequestId, Option<&Raw>),
    outlet: &Outlet,
) -> Reply {
    let (id, params) = request;
    let filter =
        params.and_then(|params| params.get("notifications")).filter(Raw::is_object).ok_or_else(|| {
            ErrorObject::new(
                code::INVALID_PARAMS,
                "params.notifications must be an object that says what to listen to",
            )
        })?;
    let tools = filter.get_as("toolsListChanged").unwrap_or(false);
    let mut watch = Watch::new(manager, caller);
    let tag = Raw::empty_object().with(meta::SUBSCRIPTION_ID, id.raw());
    let tagged = |method: &str, params: &Raw| Notification {
        method: method.to_owned(),
        params: Some(params.with("_meta", &tag)),
    };
    let honoured =
        Raw::empty_object().with("notifications", &Raw::of(&Honoured { tools_list_changed: tools }));
    outlet.offer(tagged(method::SUBSCRIPTIONS_ACKNOWLEDGED, &honoured));
    loop {
        tokio::select! {
            () = shutdown.requested() => {
                let result = era::own(caller, &Raw::empty_object());
                let meta = result.get("_meta").unwrap_or_else(Raw::empty_object);
                return Ok(result.with("_meta", &meta.with(meta::SUBSCRIPTION_ID, id.raw())));
            }
            () = watch.changed(manager, caller), if tools => {
                outlet.offer(tagged(method::TOOLS_LIST_CHANGED, &Raw::empty_object()));
            }
        }
    }
}
