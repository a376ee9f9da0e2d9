//! Passes on unlisted tools and prompts, and methods and notifications of vendors and extensions that Switchyard does not know,
//! at the endpoint of one server.
//!
//! Invariants: only callers that may call pass them. A REST client does not: to it, an unknown name is a mistake. The server has no `allow`, `deny` or `rename`, and blocks no changes,
//! because a change of an unlisted tool is not seen. They are never repeated, because nobody knows whether that is safe.
//!
//! Not here: notifications of servers (`notifications`).

use std::sync::Arc;

use super::caller::Caller;
use super::{Gateway, bridge, error};
use crate::manager::{Error, Manager, RoutedRequest};
use auth::Action;
use json::Raw;
use protocol::sanitize::shown;
use protocol::{ErrorObject, Notification, Request, method};
use upstream::config::OnChange;
use upstream::{Call, EventSender, ResponseBody};

/// The most bytes of the name of a method.
const MAX_METHOD: usize = 128;

/// The server at whose endpoint `caller` is, if it is passed what it does not list.
fn server(manager: &Manager, caller: &Caller) -> Option<Arc<str>> {
    let Some(name) = &caller.scope.server else { return None };
    if !caller.principal.may(Action::Call) || caller.affinity.is_of_program() {
        return None;
    }
    // No rule of a view has decided about it.
    if caller.scope.view.is_some() {
        return None;
    }
    let snapshot = manager.snapshot();
    let config = snapshot.server(name).ok()?.upstream.config();
    let tools = &config.tools;
    let offers_all = tools.allow.is_none() && tools.deny.is_empty() && tools.rename.is_empty();
    let offers_all = offers_all && tools.on_change != OnChange::Block;
    offers_all.then(|| Arc::clone(&config.name))
}

/// The request for `name`, a tool or a prompt that nobody lists for `caller`; `call` names it.
pub(super) fn request(
    manager: &Manager,
    caller: &Caller,
    name: &str,
    call: Box<Call>,
) -> Option<Result<RoutedRequest, Error>> {
    Some(manager.request_at(&server(manager, caller)?, name.into(), call))
}

/// Answers a request whose method Switchyard does not know, if it may be passed on.
pub(super) async fn answer(
    gateway: &Gateway,
    caller: &Caller,
    request: &Request,
    event_sender: &EventSender,
) -> Option<Result<ResponseBody, ErrorObject>> {
    if request.method.known().is_some() || !is_method(&request.method) {
        return None;
    }
    let started = caller.started();
    gateway.open(caller, &server(&gateway.manager, caller)?, event_sender).await;
    // That may have taken long, and the configuration may be another one.
    let server = server(&gateway.manager, caller)?;
    let mut call = caller.call(method::TOOLS_CALL, &request.params.clone().unwrap_or_else(Raw::empty_object));
    (call.method, call.params) = (request.method.clone(), request.params.clone());
    let routed = gateway.manager.request_at(&server, request.method.as_str().into(), call);
    Some(match routed {
        Ok(routed) => {
            let routed = RoutedRequest { started, ..routed };
            Ok(bridge::call(gateway, caller, routed, event_sender).await)
        }
        Err(gone) => Err(error::object(&gone, caller.version.era())),
    })
}

impl Gateway {
    /// Passes on a notification whose method Switchyard does not know, if that may be, on the connection that calls of its
    /// client use. Returns when it was sent.
    pub async fn notify(&self, caller: &Caller, notification: &Notification) {
        if notification.method.known().is_some() || !is_method(&notification.method) {
            return;
        }
        let Some(opened) = server(&self.manager, caller) else { return };
        self.open(caller, &opened, &EventSender::none()).await;
        let Some(server) = server(&self.manager, caller) else { return };
        let call = caller.call(method::TOOLS_CALL, &Raw::empty_object());
        if let Err(error) = self.manager.notify(&server, &call, notification).await {
            tracing::debug!(%server, method = shown(&notification.method), %error, "a notification of a client was not passed on");
        }
    }
}

/// Whether `name` can be the name of a method in a header, too.
fn is_method(name: &str) -> bool {
    (1..=MAX_METHOD).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}
