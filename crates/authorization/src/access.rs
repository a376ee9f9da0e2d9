//! The access of a token: a role, and the view that it is bound to. Scopes are how clients write it. The gateway says what an
//! owner may do ([`Host`]).
//!
//! Invariants: a broader scope implies the narrower ones. A token never allows more than its owner may do now. A scope
//! that is not known here is ignored, as clients request scopes of other products too.
//!
//! Source: RFC 6749, section 3.3; RFC 8707, section 2; MCP 2026-07-28 `basic/authorization`, scope selection.

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};
use auth::{Principal, Role, token_format};

/// The beginning of the scope of a view.
const VIEW: &str = "view:";
/// The role of a request that names none.
const DEFAULT: Role = Role::Caller;
/// Limit of the length of a list of scopes in bytes.
const MAX_BYTES: usize = 4_096;

/// The scopes of `role` and of weaker ones, the weakest first.
pub fn role_scopes(role: Role) -> impl Iterator<Item = &'static str> {
    Role::ALL.into_iter().filter(move |other| *other <= role).map(token_format::scope_of)
}

/// A role and a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The role.
    pub role: Role,
    /// The view that it is bound to; none for everything.
    pub view: Option<String>,
}

/// The access that a client requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestedAccess {
    role: Option<Role>,
    view: Option<String>,
}

impl Access {
    /// The access that `principal` has.
    pub fn of(principal: &Principal) -> Self {
        Self { role: principal.role(), view: principal.view().map(ToString::to_string) }
    }

    /// The scopes, those of a view last.
    pub fn scope(&self) -> String {
        let mut scopes: Vec<String> = role_scopes(self.role).map(str::to_owned).collect();
        scopes.extend(self.view.iter().map(|view| format!("{VIEW}{view}")));
        scopes.join(" ")
    }

    /// Whether a token can have this access.
    pub fn is_possible(&self) -> bool {
        bounded(self.role, self.view.as_deref()) == self.role
    }

    /// Returns the part of this access that an owner with `rights` has; none if the view is another.
    pub(crate) fn within(&self, rights: &Self) -> Option<Self> {
        let view = match (&self.view, &rights.view) {
            (Some(own), Some(bound)) if own != bound => return None,
            (own, bound) => own.clone().or_else(|| bound.clone()),
        };
        let role = self.role.min(rights.role);
        Some(Self { role: bounded(role, view.as_deref()), view })
    }
}

impl RequestedAccess {
    /// Reads the parameter `scope`.
    pub(crate) fn parse(scope: Option<&str>) -> Result<Self, Error> {
        let scope = scope.unwrap_or_default();
        if scope.len() > MAX_BYTES {
            return Err(Error::new(Code::InvalidScope, "`scope` is longer than 4096 bytes"));
        }
        let mut requested = Self::default();
        for word in scope.split(' ') {
            if let Some(view) = word.strip_prefix(VIEW) {
                if requested.view.as_deref().is_some_and(|other| other != view) {
                    let reason = "`scope` names two views, and a token is bound to one";
                    return Err(Error::new(Code::InvalidScope, reason));
                }
                requested.view = Some(view.to_owned());
            } else {
                requested.role = requested.role.max(token_format::role_of(word));
            }
        }
        Ok(requested)
    }

    /// Returns this request for the view that `resource` belongs to.
    pub(crate) fn in_view(self, view: Option<&str>) -> Result<Self, Error> {
        match (&self.view, view) {
            (Some(own), Some(other)) if own != other => {
                Err(Error::new(Code::InvalidScope, "`scope` names another view than `resource`"))
            }
            (None, Some(view)) => Ok(Self { view: Some(view.to_owned()), ..self }),
            _ => Ok(self),
        }
    }

    /// The view that is requested.
    pub(crate) fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }

    /// Returns the part of the request that an owner with `rights` may grant.
    pub(crate) fn granted(&self, rights: &Access) -> Option<Access> {
        Access { role: self.role.unwrap_or(DEFAULT), view: self.view.clone() }.within(rights)
    }

    /// Returns the part of `granted` that a later request names. The rest is left out, because some clients repeat their first
    /// request. The error is for a request that names another view: no part of `granted` is in it.
    pub(crate) fn narrowed(&self, granted: &Access) -> Result<Access, Error> {
        let requested = Access { role: self.role.unwrap_or(granted.role), view: self.view.clone() };
        let another = || Error::new(Code::InvalidScope, "`scope` names another view than what was granted");
        requested.within(granted).ok_or_else(another)
    }
}

/// A token that is bound to a view operates nothing, as its principal does not either.
fn bounded(role: Role, view: Option<&str>) -> Role {
    if view.is_some() && role == Role::Superuser { Role::Caller } else { role }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn access(role: Role, view: Option<&str>) -> Access {
        Access { role, view: view.map(str::to_owned) }
    }

    #[test]
    fn grant_has_what_is_requested_and_no_more_than_its_owner_has() {
        use Role::{Caller, Reader, Superuser};
        for (scope, rights, expected) in [
            ("", access(Superuser, None), Some(access(Caller, None))),
            ("openid offline_access claudeai", access(Superuser, None), Some(access(Caller, None))),
            ("mcp:read", access(Superuser, None), Some(access(Reader, None))),
            ("mcp:read mcp:call", access(Caller, None), Some(access(Caller, None))),
            ("mcp:admin", access(Superuser, None), Some(access(Superuser, None))),
            ("mcp:admin", access(Reader, None), Some(access(Reader, None))),
            ("mcp:call view:help", access(Superuser, None), Some(access(Caller, Some("help")))),
            ("mcp:admin view:help", access(Superuser, None), Some(access(Caller, Some("help")))),
            ("mcp:call", access(Caller, Some("help")), Some(access(Caller, Some("help")))),
            ("view:help view:help", access(Caller, Some("help")), Some(access(Caller, Some("help")))),
            ("view:other", access(Caller, Some("help")), None),
        ] {
            let requested = RequestedAccess::parse(Some(scope)).expect("scopes");
            assert_eq!(requested.granted(&rights), expected, "{scope} {rights:?}");
        }
        assert_eq!(RequestedAccess::parse(Some("view:a view:b")).expect_err("two").code, Code::InvalidScope);
        let long = "a ".repeat(MAX_BYTES);
        assert_eq!(RequestedAccess::parse(Some(&long)).expect_err("long").code, Code::InvalidScope);
    }

    #[test]
    fn refresh_may_narrow_a_grant_and_never_widen_it() {
        use Role::{Caller, Reader, Superuser};
        for (scope, granted, expected) in [
            (None, access(Caller, None), access(Caller, None)),
            (Some("mcp:read"), access(Caller, None), access(Reader, None)),
            (Some("mcp:call view:help"), access(Caller, None), access(Caller, Some("help"))),
            (Some("mcp:read mcp:call mcp:admin offline_access"), access(Caller, None), access(Caller, None)),
            (Some("mcp:admin"), access(Reader, None), access(Reader, None)),
            (Some("view:help"), access(Superuser, None), access(Caller, Some("help"))),
        ] {
            let narrowed = RequestedAccess::parse(scope).expect("scopes").narrowed(&granted);
            assert_eq!(narrowed, Ok(expected), "{scope:?}");
        }
        let bound = access(Caller, Some("help"));
        let narrowed = |scope| RequestedAccess::parse(Some(scope)).expect("scopes").narrowed(&bound);
        assert_eq!(narrowed("mcp:read"), Ok(access(Reader, Some("help"))));
        assert_eq!(
            narrowed("mcp:admin view:help"),
            Ok(bound.clone()),
            "a superuser agreed, whose role a view ends"
        );
        assert_eq!(narrowed("view:other").expect_err("another view").code, Code::InvalidScope);
    }

    #[test]
    fn scopes_of_a_role_include_those_of_weaker_ones() {
        assert_eq!(access(Role::Reader, None).scope(), "mcp:read");
        assert_eq!(access(Role::Caller, Some("help")).scope(), "mcp:read mcp:call view:help");
        assert_eq!(access(Role::Superuser, None).scope(), "mcp:read mcp:call mcp:admin");
    }
}
