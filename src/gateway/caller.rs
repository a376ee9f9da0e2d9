//! Who asks the gateway, and in which revision of the protocol.

use crate::auth::Principal;
use crate::manager::Scope;
use crate::protocol::meta::{self, Sender};
use crate::protocol::{Raw, Version, lifecycle};
use crate::upstream::Owner;

/// The client behind a request. A legacy session keeps one; in the modern era it is made anew from
/// each request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// On whose authority.
    pub principal: Principal,
    /// The revision spoken with it.
    pub version: Version,
    /// What it said of itself.
    pub sender: Sender,
    /// Which servers it sees.
    pub scope: Scope,
    /// Whether it wants the log lines that servers write during a call. Modern clients say so in
    /// each request; legacy ones get what servers send.
    pub wants_log: bool,
    /// Whose calls these are: the session's, or the one request's.
    pub owner: Owner,
}

impl Caller {
    /// The sender of a modern request, from its `_meta`.
    pub fn modern(principal: Principal, scope: Scope, params: Option<&Raw>) -> Self {
        let meta = meta::of(params);
        let member = |key| meta.as_ref().and_then(|meta| meta.get(key)).filter(Raw::is_object);
        let sender = Sender {
            capabilities: member(meta::CLIENT_CAPABILITIES).unwrap_or_else(Raw::empty_object),
            info: member(meta::CLIENT_INFO).unwrap_or_else(lifecycle::own_info),
        };
        let wants_log = meta.is_some_and(|meta| meta.get(meta::LOG_LEVEL).is_some());
        Self { principal, version: Version::NEWEST_MODERN, sender, scope, wants_log, owner: Owner::new() }
    }

    /// The sender of `initialize`, with the revision that answers it.
    pub fn legacy(principal: Principal, scope: Scope, params: Option<&Raw>) -> Self {
        let requested: String = params.and_then(|p| p.get_as("protocolVersion")).unwrap_or_default();
        let info = params.and_then(|p| p.get("clientInfo")).filter(Raw::is_object);
        let sender = Sender {
            // A client of this era answers questions on its session, not in a retried call; until
            // the two are bridged, no server may believe that it can be asked.
            capabilities: Raw::empty_object(),
            info: info.unwrap_or_else(lifecycle::own_info),
        };
        Self {
            principal,
            version: Version::negotiate(&requested),
            sender,
            scope,
            wants_log: true,
            owner: Owner::new(),
        }
    }
}
