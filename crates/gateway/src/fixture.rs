//! A gateway over one server in memory, for the tests of this folder.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;

use super::{Caller, Gateway};
use crate::manager::{Config, Manager, Scope};
use auth::{Principal, Role};
use json::Raw;
use protocol::{Reply, Request, RequestId, Version};
use runtime::shutdown::Shutdown;
use upstream::fake::{self, Fake};
use upstream::{EventReceiver, EventSender};

/// Parses a JSON value.
pub(super) fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON")
}

/// The gateway and its server `s`, which has the tool `echo`.
pub(super) struct Scene {
    pub gateway: Gateway,
    pub server: Fake,
    pub shutdown: Shutdown,
}

impl Scene {
    pub(super) async fn with(version: Version) -> Self {
        Self::having(version, r#"{"tools":{}}"#).await
    }

    /// Makes a scene whose server declares `capabilities`.
    pub(super) async fn having(version: Version, capabilities: &str) -> Self {
        let server = Fake::new(version);
        server.capabilities(&serde_json::from_str(capabilities).expect("JSON"));
        Self::over(server).await
    }

    /// Makes a scene over `server` in its current state.
    pub(super) async fn over(server: Fake) -> Self {
        let config = Config::of(vec![fake::config("s")]);
        let shutdown = Shutdown::new();
        let manager = Manager::with_connectors(config, vec![server.connector()], shutdown.child());
        manager.settled(&Scope::ALL, Duration::from_secs(1)).await;
        Self { gateway: Gateway::new(manager, shutdown.clone()), server, shutdown }
    }

    /// Calls the tool `echo` with more members of `params`. Messages before the response are in the inlet.
    pub(super) fn call_heard(
        &self,
        caller: &Caller,
        more: &[(&str, &str)],
    ) -> (impl Future<Output = Reply> + Send + 'static, EventReceiver) {
        let mut params = raw(r#"{"name":"echo","arguments":{"a":1}}"#);
        for (name, value) in more {
            params = params.with(name, &raw(value));
        }
        self.request_heard(caller, "tools/call", params)
    }

    /// Makes a request without reading messages before the response.
    pub(super) async fn request(&self, caller: &Caller, method: &str, params: &str) -> Reply {
        let (answer, receiver) = self.request_heard(caller, method, raw(params));
        let reply = answer.await;
        drop(receiver);
        reply
    }

    /// Makes a request. Messages before the response are in the inlet.
    pub(super) fn request_heard(
        &self,
        caller: &Caller,
        method: &str,
        params: Raw,
    ) -> (impl Future<Output = Reply> + Send + 'static, EventReceiver) {
        let id = RequestId::from_raw(raw("1")).expect("an id");
        let request = Request { id, method: method.into(), params: Some(params) };
        let (gateway, caller) = (self.gateway.clone(), caller.clone());
        let (event_sender, receiver) = EventSender::new(16);
        let reply = async move {
            crate::collect(gateway.handle(&caller, &request, &event_sender).await, caller.version.era()).await
        };
        (reply.boxed(), receiver)
    }

    /// Calls the tool `echo` without reading messages before the response.
    pub(super) async fn call(&self, caller: &Caller, more: &[(&str, &str)]) -> Reply {
        let (answer, receiver) = self.call_heard(caller, more);
        let reply = answer.await;
        drop(receiver);
        reply
    }

    /// Returns the number of calls that occupy a slot of the server.
    pub(super) fn running(&self) -> usize {
        self.gateway.manager().server("s").expect("there").status.running
    }
}

/// Makes a modern client that declared `capabilities`.
pub(super) fn modern(name: &str, capabilities: &str) -> Caller {
    let meta = raw("{}").with("io.modelcontextprotocol/clientCapabilities", &raw(capabilities));
    let params = raw("{}").with("_meta", &meta);
    Caller::modern(Principal::new(Arc::from(name), Role::Superuser), Scope::ALL, Some(&params))
}

/// Makes a client of 2025-11-25 that declared `capabilities`.
pub(super) fn legacy(capabilities: &str) -> Caller {
    let params = raw(r#"{"protocolVersion":"2025-11-25"}"#).with("capabilities", &raw(capabilities));
    Caller::legacy(Principal::anonymous(), Scope::ALL, Some(&params))
}

/// Returns the text of a reply or an error.
pub(super) fn text(reply: &Reply) -> &str {
    match reply {
        Ok(result) => result.as_str(),
        Err(error) => error.raw().as_str(),
    }
}
