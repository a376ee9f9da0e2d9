//! The check that a principal may log in to a server.
//!
//! Invariant: a login that all principals share needs a superuser, and a login of one principal a caller. The decision
//! is `auth`'s, and a refusal is in the audit log.

use super::context::Visit;
use super::messages;
use crate::browser::html::Page;
use crate::browser::sessions::BrowserSession;
use gateway::logins::Per;
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::{self, Actor, Subject};

/// Checks that the principal of `session` may log in to a server whose login is used as `per` says.
pub(super) fn check(per: Per, session: &BrowserSession, visit: &Visit) -> Result<(), Page> {
    let (principal, action) = (session.principal(), per.log_in());
    if principal.may(action) {
        return Ok(());
    }
    audit::refused(who(session, visit.id), action.as_str(), &Subject::default())
        .map_err(|_| messages::busy())?;
    Err(messages::not_allowed(per, principal.role()))
}

/// The principal of `session` as the audit log shows it.
pub(crate) fn who(session: &BrowserSession, id: RequestId) -> Actor<'_> {
    let principal = session.principal();
    Actor { principal: principal.id(), role: principal.role().as_str(), request: Some(id) }
}
