//! Who asks, and the one function that decides what a role may do.
//!
//! Invariants: there is no default principal, one comes out of an authentication, or there is none; one
//! knows when the credential that it came in with was taken back, and is the same principal as one who
//! came in with another.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::revocation::Standing;

/// What a principal may do at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sees what there is, and asks no server for anything.
    Reader,
    /// Has servers answer, and operates nothing: what a client's configuration should hold.
    Caller,
    /// Has servers answer, and operates the gateway.
    Superuser,
}

/// What somebody wants to do, over REST or MCP alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// See which servers, tools, resources and prompts there are, and how they are.
    List,
    /// Have a server answer: read a resource or be told when it changes, get a prompt, complete an
    /// argument. What it answers is as much its operator's as what a tool does.
    Read,
    /// Run a tool: `POST /call`, `tools/call`.
    Call,
    /// Close a circuit breaker by hand.
    ResetBreaker,
    /// Rebuild the connections of a server.
    Reconnect,
    /// Trust definitions of tools that changed.
    ApproveTools,
    /// Have the registry file be read again.
    Reload,
}

impl Action {
    /// Its name in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Call => "call",
            Self::ResetBreaker => "reset_breaker",
            Self::Reconnect => "reconnect",
            Self::ApproveTools => "approve_tools",
            Self::Reload => "reload",
        }
    }

    /// Whether it operates the gateway, and so concerns others.
    pub const fn is_operation(self) -> bool {
        matches!(self, Self::ResetBreaker | Self::Reconnect | Self::ApproveTools | Self::Reload)
    }
}

impl Role {
    /// Every role, weakest first.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Caller, Self::Superuser];

    /// Whether the role allows `action`. The only place that knows.
    pub const fn may(self, action: Action) -> bool {
        match (self, action) {
            (Self::Superuser, _)
            | (Self::Reader | Self::Caller, Action::List)
            | (Self::Caller, Action::Read | Action::Call) => true,
            (Self::Reader, Action::Read | Action::Call)
            | (
                Self::Reader | Self::Caller,
                Action::ResetBreaker | Action::Reconnect | Action::ApproveTools | Action::Reload,
            ) => false,
        }
    }

    /// The weakest role that allows `action`: the one to ask for.
    pub fn needed_for(action: Action) -> Self {
        Self::ALL.into_iter().find(|role| role.may(action)).unwrap_or(Self::Superuser)
    }

    /// Its name in configuration files and tokens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Caller => "caller",
            Self::Superuser => "superuser",
        }
    }

    /// The role called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Somebody who was let in.
#[derive(Debug, Clone)]
pub struct Principal(Arc<Identity>);

#[derive(Debug)]
struct Identity {
    id: Arc<str>,
    role: Role,
    standing: Standing,
}

impl Principal {
    /// Everybody, where authentication is off. That is possible on loopback only, where whoever can
    /// connect can also start the gateway with any configuration.
    pub fn anonymous() -> Self {
        static ANONYMOUS: OnceLock<Principal> = OnceLock::new();
        ANONYMOUS.get_or_init(|| Self::new("anonymous", Role::Superuser)).clone()
    }

    /// The sender of a request without a credential, where reading needs none (`anonymous_role: reader`).
    pub fn anonymous_reader() -> Self {
        Self::new("anonymous", Role::Reader)
    }

    /// Somebody a program that embeds the gateway has authenticated itself. `id` must be unique.
    pub fn new(id: impl Into<Arc<str>>, role: Role) -> Self {
        Self(Arc::new(Identity { id: id.into(), role, standing: Standing::default() }))
    }

    /// The same principal, who came in with what `standing` lasts as long as.
    pub(super) fn under(&self, standing: Standing) -> Self {
        Self(Arc::new(Identity { id: Arc::clone(self.id()), role: self.role(), standing }))
    }

    /// The holder of the API key `id`.
    pub(super) fn of_key(id: &str, role: Role) -> Self {
        Self::new(format!("key:{id}"), role)
    }

    /// The subject of a token.
    pub(super) fn of_token(subject: &str, role: Role) -> Self {
        Self::new(format!("jwt:{subject}"), role)
    }

    /// What everything that belongs to this principal is keyed by. How it was authenticated is part
    /// of it, so a token's subject never equals the name of a key.
    pub fn id(&self) -> &Arc<str> {
        &self.0.id
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// Whether it may do `action`.
    pub fn may(&self, action: Action) -> bool {
        self.role().may(action)
    }

    /// Whether this is a copy of `other`, and so who came in with the same credential.
    pub fn is_very(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether its credential was taken back or changed since it was let in.
    pub fn is_taken_back(&self) -> bool {
        self.0.standing.is_over()
    }

    /// Resolves when its credential is taken back or changed. Takes a lock that all who came in with the
    /// same credential share: for what lasts, and not for each call.
    pub async fn taken_back(&self) {
        self.0.standing.over().await;
    }

    /// What ends when its credential is taken back.
    pub(super) fn standing(&self) -> &Standing {
        &self.0.standing
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id() && self.role() == other.role()
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
        self.role().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_roles() {
        for (action, reader, caller) in [
            (Action::List, true, true),
            (Action::Read, false, true),
            (Action::Call, false, true),
            (Action::ResetBreaker, false, false),
            (Action::Reconnect, false, false),
            (Action::ApproveTools, false, false),
            (Action::Reload, false, false),
        ] {
            assert_eq!(Role::Reader.may(action), reader, "{action:?}");
            assert_eq!(Role::Caller.may(action), caller, "{action:?}");
            assert!(Role::Superuser.may(action), "{action:?}");
            let weakest =
                [Role::Superuser, Role::Caller, Role::Reader][usize::from(caller) + usize::from(reader)];
            assert_eq!(Role::needed_for(action), weakest, "{action:?}");
        }
        for role in Role::ALL {
            assert_eq!(Role::from_name(role.as_str()), Some(role));
        }
    }

    #[test]
    fn ways_of_authentication_do_not_share_ids() {
        let ids = [Principal::anonymous(), Principal::of_key("anonymous", Role::Reader)];
        assert_ne!(ids[0].id(), ids[1].id());
        assert_ne!(ids[1].id(), Principal::of_token("anonymous", Role::Reader).id());
    }
}
