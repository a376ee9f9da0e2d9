//! The gateway, as far as its authorization server asks it.

use crate::access::Access;

/// The kind of the last part of the path of an MCP endpoint, as in `/mcp/NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// One server.
    Server,
    /// A view.
    View,
}

/// The gateway, as far as the authorization server asks it. Answers come from memory.
pub trait Host: Send + Sync {
    /// Returns what `owner`, the id of a principal, may do now; none if its credential is gone.
    fn rights(&self, owner: &str) -> Option<Access>;

    /// Whether `owner` may agree to a grant: later the gateway has to know what it may do then.
    fn may_agree(&self, _owner: &str) -> bool {
        true
    }

    /// Returns a tag of the credential of `owner`; another credential of the same owner has another tag. For a person who
    /// signed in at the login service, it is a tag of the settings that decide who may sign in there. None for an owner
    /// without either.
    fn credential(&self, _owner: &str) -> Option<String> {
        None
    }

    /// Returns what `name` is.
    fn endpoint(&self, name: &str) -> Option<Endpoint>;

    /// Ends what runs with tokens of the grant `id`, which has ended.
    fn grant_ended(&self, id: &str);

    /// Whether there are principals of grants, which have to learn of the end of these.
    fn uses_grants(&self) -> bool {
        false
    }

    /// Returns the ids of the grants of these principals.
    fn used_grants(&self) -> Vec<String> {
        Vec::new()
    }

    /// Signs the browsers of `owner` out, all of whose grants end. A person of the login service has nothing else that could
    /// be revoked, and a browser that is signed in would get the next grant.
    fn owner_ended(&self, _owner: &str) {}
}
