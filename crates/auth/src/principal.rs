//! Authenticated principals, and the one function that decides what a role may do.
//!
//! Invariants: there is no default principal; each comes from an authentication. A principal knows when
//! its credential was revoked. Principals with equal id, role and view are equal, whatever their credentials. A
//! credential that is bound to a view has no access outside of it, so it operates nothing.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::revocation::RevocationState;
use settings::words;

words! {
    /// The highest rights of a principal, the weakest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Role {
        /// May read the catalog, but sends nothing to servers.
        Reader = "reader",
        /// May call servers, but not operate Switchyard. This is the role for the configuration of a client.
        Caller = "caller",
        /// May call servers and operate Switchyard.
        Superuser = "superuser",
    }
}

/// An action of a client, over REST or MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// List servers, tools, resources and prompts, and their states.
    List,
    /// Read from a server: read a resource or subscribe to it, get a prompt, complete an argument. Such
    /// answers need the same protection as results of tools.
    Read,
    /// Run a tool: `POST /call`, `tools/call`.
    Call,
    /// Close a circuit breaker by hand.
    ResetBreaker,
    /// Rebuild the connections of a server.
    Reconnect,
    /// Enable a server until the next reload.
    Enable,
    /// Disable a server until the next reload.
    Disable,
    /// Forget what is remembered of a server.
    Forget,
    /// Approve changed definitions of tools.
    ApproveTools,
    /// Reload the configuration file.
    Reload,
    /// Read the configuration in effect, without its secrets.
    ReadConfiguration,
    /// Read the metrics, which are about all servers and clients.
    ReadMetrics,
    /// Add a server to the configuration file.
    AddServer,
    /// Change a server in the configuration file.
    EditServer,
    /// Remove a server from the configuration file.
    RemoveServer,
    /// Read what the process of a server writes to standard error.
    ReadStderr,
    /// List API keys, without the keys themselves.
    ListKeys,
    /// Make an API key.
    MakeKey,
    /// Revoke an API key.
    RevokeKey,
    /// Log in to a server (OAuth) for oneself, and see that login.
    LogIn,
    /// Log in to a server for all who use it.
    LogInForAll,
    /// End one's own login to a server.
    LogOut,
    /// End the login to a server that all share.
    LogOutForAll,
    /// List the names of one's own secrets for servers.
    ListSecrets,
    /// Set a secret of one's own for servers.
    SetSecret,
    /// Remove a secret of one's own.
    RemoveSecret,
    /// List, set or remove secrets of another principal.
    ChangeSecretsOfOthers,
    /// List what one has granted to clients.
    ListGrants,
    /// End what one has granted to clients.
    RevokeGrant,
    /// List or end what another principal has granted to clients.
    RevokeGrantsOfOthers,
    /// List the clients of the authorization server.
    ListClients,
    /// Remove a client of the authorization server.
    RemoveClient,
}

impl Action {
    /// The name of the action in the audit log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Call => "call",
            Self::ResetBreaker => "reset_breaker",
            Self::Reconnect => "reconnect",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Forget => "forget",
            Self::ApproveTools => "approve_tools",
            Self::Reload => "reload",
            Self::ReadConfiguration => "read_configuration",
            Self::ReadMetrics => "read_metrics",
            Self::AddServer => "add_server",
            Self::EditServer => "edit_server",
            Self::RemoveServer => "remove_server",
            Self::ReadStderr => "read_stderr",
            Self::ListKeys => "list_keys",
            Self::MakeKey => "make_key",
            Self::RevokeKey => "revoke_key",
            Self::LogIn => "log_in",
            Self::LogInForAll => "log_in_for_all",
            Self::LogOut => "log_out",
            Self::LogOutForAll => "log_out_for_all",
            Self::ListSecrets => "list_secrets",
            Self::SetSecret => "set_secret",
            Self::RemoveSecret => "remove_secret",
            Self::ChangeSecretsOfOthers => "change_secrets_of_others",
            Self::ListGrants => "list_grants",
            Self::RevokeGrant => "revoke_grant",
            Self::RevokeGrantsOfOthers => "revoke_grants_of_others",
            Self::ListClients => "list_clients",
            Self::RemoveClient => "remove_client",
        }
    }

    /// Whether the action operates Switchyard and therefore affects others.
    pub const fn is_operation(self) -> bool {
        match self {
            Self::ResetBreaker
            | Self::Reconnect
            | Self::Enable
            | Self::Disable
            | Self::Forget
            | Self::ApproveTools
            | Self::Reload
            | Self::AddServer
            | Self::EditServer
            | Self::RemoveServer
            | Self::MakeKey
            | Self::RevokeKey
            | Self::LogInForAll
            | Self::LogOutForAll
            | Self::SetSecret
            | Self::RemoveSecret
            | Self::ChangeSecretsOfOthers
            | Self::RevokeGrant
            | Self::RevokeGrantsOfOthers
            | Self::RemoveClient => true,
            Self::List
            | Self::Read
            | Self::Call
            | Self::ReadConfiguration
            | Self::ReadMetrics
            | Self::ReadStderr
            | Self::ListKeys
            | Self::LogIn
            | Self::LogOut
            | Self::ListSecrets
            | Self::ListGrants
            | Self::ListClients => false,
        }
    }
}

impl Role {
    /// Every role, weakest first.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Caller, Self::Superuser];

    /// Whether the role allows `action`.
    pub fn may(self, action: Action) -> bool {
        self >= Self::needed_for(action)
    }

    /// The weakest role that allows `action`. No other code decides this.
    pub const fn needed_for(action: Action) -> Self {
        match action {
            // To end what one has granted takes access away, and gives none.
            Action::List | Action::ReadMetrics | Action::ListGrants | Action::RevokeGrant => Self::Reader,
            Action::Read
            | Action::Call
            | Action::LogIn
            | Action::LogOut
            | Action::ListSecrets
            | Action::SetSecret
            | Action::RemoveSecret => Self::Caller,
            Action::ResetBreaker
            | Action::Reconnect
            | Action::Enable
            | Action::Disable
            | Action::Forget
            | Action::ApproveTools
            | Action::Reload
            | Action::ReadConfiguration
            | Action::AddServer
            | Action::EditServer
            | Action::RemoveServer
            | Action::ReadStderr
            | Action::ListKeys
            | Action::MakeKey
            | Action::RevokeKey
            | Action::LogInForAll
            | Action::LogOutForAll
            | Action::ChangeSecretsOfOthers
            | Action::RevokeGrantsOfOthers
            | Action::ListClients
            | Action::RemoveClient => Self::Superuser,
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

/// Begins the id of a person who signed in at a login service.
const PERSON: &str = "login:";

/// A person who signed in at the login service behind the authorization server, and has no credential of this gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// An email address or account name, for people.
    pub name: Arc<str>,
    /// When its rights end, so that it has to sign in again.
    pub until: SystemTime,
}

impl Person {
    /// The id of the principal whom `issuer`, a login service, calls `subject`. An issuer has no fragment, so the id names both.
    pub fn id(issuer: &str, subject: &str) -> String {
        let place = issuer.strip_prefix("https://").unwrap_or(issuer).trim_end_matches('/');
        format!("{PERSON}{place}#{subject}")
    }

    /// Whether `id` is that of such a principal.
    pub fn is_id(id: &str) -> bool {
        id.starts_with(PERSON)
    }
}

/// An authenticated sender of requests.
#[derive(Debug, Clone)]
pub struct Principal(Arc<Identity>);

#[derive(Debug, Clone)]
struct Identity {
    id: Arc<str>,
    role: Role,
    view: Option<Arc<str>>,
    /// The path of the only endpoint that its credential is for.
    endpoint: Option<Arc<str>>,
    person: Option<Person>,
    /// Whether its credential is a token of the authorization server of this gateway.
    is_of_grant: bool,
    revocation_state: RevocationState,
}

impl Principal {
    /// The id of senders without a credential. Those of all others begin with the kind of their credential.
    pub const ANONYMOUS: &str = "anonymous";

    /// The principal of all requests if authentication is off. That is possible on loopback only, where
    /// any user who can connect can also start Switchyard with any configuration.
    pub fn anonymous() -> Self {
        static ALL: OnceLock<Principal> = OnceLock::new();
        ALL.get_or_init(|| Self::new(Self::ANONYMOUS, Role::Superuser)).clone()
    }

    /// The sender of a request without a credential, if reading needs none (`anonymous_role: reader`).
    pub fn anonymous_reader() -> Self {
        Self::new(Self::ANONYMOUS, Role::Reader)
    }

    /// A principal that a program which embeds Switchyard has authenticated itself. `id` must be unique.
    pub fn new(id: impl Into<Arc<str>>, role: Role) -> Self {
        let revocation_state = RevocationState::default();
        let (id, is_of_grant) = (id.into(), false);
        Self(Arc::new(Identity {
            id,
            role,
            view: None,
            endpoint: None,
            person: None,
            is_of_grant,
            revocation_state,
        }))
    }

    /// Returns this principal bound to `view`: its credential reaches what the view has, and nothing else. It operates
    /// nothing, because that affects what is outside of the view.
    #[must_use]
    pub fn bound_to(&self, view: Option<Arc<str>>) -> Self {
        if view.is_none() {
            return self.clone();
        }
        let role = match self.role() {
            Role::Reader => Role::Reader,
            Role::Caller | Role::Superuser => Role::Caller,
        };
        Self(Arc::new(Identity { role, view, ..Identity::clone(&self.0) }))
    }

    /// Returns this principal with a credential for the endpoint at the path `endpoint` only, such as `/mcp/NAME`.
    #[must_use]
    pub fn at_endpoint(&self, endpoint: Option<Arc<str>>) -> Self {
        Self(Arc::new(Identity { endpoint, ..Identity::clone(&self.0) }))
    }

    /// Returns this principal as the owner of a grant: a client acts for it, with a token of the authorization server of this
    /// gateway.
    #[must_use]
    pub fn of_grant(&self) -> Self {
        Self(Arc::new(Identity { is_of_grant: true, ..Identity::clone(&self.0) }))
    }

    /// Whether a client acts for it, with a token of the authorization server of this gateway. Such a token may do what its owner
    /// agreed to, and agrees to nothing itself.
    pub fn is_of_grant(&self) -> bool {
        self.0.is_of_grant
    }

    /// Returns this principal with no more than the role and the view of `holder`; none if it is bound to another view.
    pub(super) fn within(&self, holder: &Self) -> Option<Self> {
        let view = match (self.view(), holder.view()) {
            (Some(own), Some(bound)) if own != bound => return None,
            (own, bound) => own.or(bound).cloned(),
        };
        let role = self.role().min(holder.role());
        Some(Self(Arc::new(Identity { role, ..Identity::clone(&self.0) })).bound_to(view))
    }

    /// Whether its credential is for requests to `path`. Clients of a server over HTTP+SSE post to a path of all servers,
    /// where the session is the one of the server.
    pub fn may_reach(&self, path: &str) -> bool {
        self.0.endpoint.as_ref().is_none_or(|endpoint| {
            path.trim_end_matches('/') == &**endpoint || endpoint.starts_with("/sse/") && path == "/messages"
        })
    }

    /// Whether its credential is for what `other` has reached: for all endpoints, or for the one of `other`.
    pub fn may_reach_endpoint_of(&self, other: &Self) -> bool {
        self.0.endpoint.is_none() || self.0.endpoint == other.0.endpoint
    }

    /// The view that its credential is bound to.
    pub fn view(&self) -> Option<&Arc<str>> {
        self.0.view.as_ref()
    }

    /// Returns this principal with the revocation state `revocation_state`.
    pub(super) fn under(&self, revocation_state: RevocationState) -> Self {
        Self(Arc::new(Identity { revocation_state, ..Identity::clone(&self.0) }))
    }

    /// The holder of the API key `id`.
    pub fn of_key(id: &str, role: Role) -> Self {
        Self::new(Self::id_of_key(id), role)
    }

    /// The id of the holder of the API key `key`.
    pub fn id_of_key(key: &str) -> String {
        format!("key:{key}")
    }

    /// The id of the API key whose holder is the principal `id`, if it is one.
    pub(super) fn key_of_id(id: &str) -> Option<&str> {
        id.strip_prefix("key:")
    }

    /// The subject of a token.
    pub(super) fn of_token(subject: &str, role: Role) -> Self {
        Self::new(format!("jwt:{subject}"), role)
    }

    /// The client whose certificate has `name`.
    pub fn of_certificate(name: &str, role: Role) -> Self {
        Self::new(format!("cert:{name}"), role)
    }

    /// The person whom `issuer`, a login service, calls `subject`.
    pub fn of_person(issuer: &str, subject: &str, role: Role, person: Person) -> Self {
        let unnamed = Self::new(Person::id(issuer, subject), role);
        Self(Arc::new(Identity { person: Some(person), ..Identity::clone(&unnamed.0) }))
    }

    /// The login of a person who has no credential of this gateway.
    pub fn person(&self) -> Option<&Person> {
        self.0.person.as_ref()
    }

    /// Ends what runs with the login of a person. A credential of this gateway stays valid.
    pub fn end_login(&self) {
        if self.person().is_some() {
            self.revocation_state().end();
        }
    }

    /// How people know it: the name of a person, otherwise the id.
    pub fn shown(&self) -> &str {
        self.person().map_or(self.id(), |person| &person.name)
    }

    /// The key of everything that belongs to this principal. It includes the kind of authentication, so
    /// the subject of a token never equals the name of an API key.
    pub fn id(&self) -> &Arc<str> {
        &self.0.id
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// Whether it may do `action`.
    pub fn may(&self, action: Action) -> bool {
        // Metrics are about all servers, also those outside of the view.
        self.role().may(action) && (self.view().is_none() || action != Action::ReadMetrics)
    }

    /// Whether it may see what the principal `caller` did, and who that is. Live events and the history of calls ask this.
    pub fn may_see(&self, caller: Option<&str>) -> bool {
        self.role() == Role::Superuser || caller == Some(&**self.id())
    }

    /// Whether this is a copy of `other`, and so was authenticated with the same credential.
    pub fn is_copy_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether `id` is that of requests without a credential.
    pub fn is_anonymous_id(id: &str) -> bool {
        *id == *Self::ANONYMOUS
    }

    /// Whether its requests had no credential, because the configuration asks for none.
    pub fn is_anonymous(&self) -> bool {
        **self.id() == *Self::ANONYMOUS
    }

    /// Whether the credential was revoked or changed since authentication.
    pub fn is_revoked(&self) -> bool {
        self.0.revocation_state.is_over()
    }

    /// Resolves when the credential is revoked or changed. It takes a lock that all holders of the
    /// credential share, so do not use it in each call.
    pub async fn revoked(&self) {
        self.0.revocation_state.over().await;
    }

    /// The revocation state of its credential.
    pub(super) fn revocation_state(&self) -> &RevocationState {
        &self.0.revocation_state
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id() && self.role() == other.role() && self.view() == other.view()
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
        self.role().hash(state);
        self.view().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_is_stored_by_its_name() {
        for role in Role::ALL {
            let stored = serde_json::to_value(role).expect("JSON");
            assert_eq!(stored, role.as_str());
            assert_eq!(serde_json::from_value::<Role>(stored).expect("a role"), role);
        }
    }

    #[test]
    fn the_table_of_roles() {
        for (action, reader, caller) in [
            (Action::List, true, true),
            (Action::ReadMetrics, true, true),
            (Action::Read, false, true),
            (Action::Call, false, true),
            (Action::ResetBreaker, false, false),
            (Action::Reconnect, false, false),
            (Action::Enable, false, false),
            (Action::Disable, false, false),
            (Action::Forget, false, false),
            (Action::ApproveTools, false, false),
            (Action::Reload, false, false),
            (Action::ReadConfiguration, false, false),
            (Action::LogIn, false, true),
            (Action::LogInForAll, false, false),
            (Action::LogOut, false, true),
            (Action::LogOutForAll, false, false),
            (Action::ListSecrets, false, true),
            (Action::SetSecret, false, true),
            (Action::RemoveSecret, false, true),
            (Action::ChangeSecretsOfOthers, false, false),
            (Action::ListGrants, true, true),
            (Action::RevokeGrant, true, true),
            (Action::RevokeGrantsOfOthers, false, false),
            (Action::ListClients, false, false),
            (Action::RemoveClient, false, false),
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
        assert_ne!(ids[1].id(), Principal::of_certificate("anonymous", Role::Reader).id());
        assert_ne!(ids[1].id(), Principal::of_token("anonymous", Role::Reader).id());
    }
}
