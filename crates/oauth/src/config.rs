//! Settings of a login: `auth: oauth`, or `auth: {oauth: {…}}` with what discovery cannot find.
//!
//! Not here: reading them, and whether a server offers what the settings ask for.

use auth::Action;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;

/// How a token is obtained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grant {
    /// A person logs in with a browser.
    #[default]
    AuthorizationCode,
    /// Switchyard logs in with its own credentials.
    ClientCredentials,
    /// Switchyard presents a signed statement about itself or a user (RFC 7523).
    JwtBearer,
}

/// How Switchyard authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthentication {
    /// `client_secret_basic`: id and secret in the header `Authorization`.
    Basic,
    /// `client_secret_post`: id and secret in the body.
    Post,
    /// `none`: the id only.
    None,
    /// `private_key_jwt`: an assertion that a private key signed.
    PrivateKeyJwt,
}

impl ClientAuthentication {
    /// Returns the name that metadata of authorization servers uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// Whether it sends the secret of the client.
    pub(crate) const fn needs_secret(self) -> bool {
        matches!(self, Self::Basic | Self::Post)
    }
}

/// The principals that share one account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Per {
    /// One account for all principals.
    #[default]
    Shared,
    /// One account for each principal.
    Principal,
}

impl Per {
    /// The action of a principal that logs in.
    pub const fn log_in(self) -> Action {
        match self {
            Self::Shared => Action::LogInForAll,
            Self::Principal => Action::LogIn,
        }
    }

    /// The action of a principal that logs out.
    pub const fn log_out(self) -> Action {
        match self {
            Self::Shared => Action::LogOutForAll,
            Self::Principal => Action::LogOut,
        }
    }
}

/// The identity provider of an enterprise, which vouches for a user at the authorization server (RFC 8693, ID-JAG).
#[derive(Debug, Clone)]
pub struct IdentityProvider {
    /// Its token endpoint.
    pub token_endpoint: Url,
    /// The id of Switchyard there.
    pub client_id: String,
    /// The secret of Switchyard there.
    pub client_secret: Option<SecretString>,
    /// The ID token of the user, which is exchanged.
    pub id_token: SecretString,
}

/// The parameter `resource`, which names the server that a token is for (RFC 8707).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ResourceParameter {
    /// The identifier that the server's metadata names, else its URL. If the authorization server refuses the parameter,
    /// it is left out.
    #[default]
    Discovered,
    /// This value, always.
    Value(String),
    /// The parameter is not sent.
    Omitted,
}

/// How Switchyard logs in to one server.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The scopes to ask for. For people also those of a challenge; if none is listed, the metadata names them.
    pub scopes: Vec<String>,
    /// Whether a machine asks for the scopes that the server names too.
    pub takes_server_scopes: bool,
    /// The id of a client that was registered by hand.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<SecretString>,
    /// The URL of a client id metadata document that somebody else serves.
    pub client_metadata_url: Option<Url>,
    /// The parameter `resource` of requests to the authorization server.
    pub resource: ResourceParameter,
    /// The only issuer that is accepted.
    pub issuer: Option<String>,
    /// How a token is obtained.
    pub grant: Grant,
    /// How Switchyard authenticates at the token endpoint. `None` means that it chooses what both sides support.
    pub token_endpoint_auth: Option<ClientAuthentication>,
    /// The principals that share one account.
    pub per: Per,
    /// The private key, in PEM, that signs assertions.
    pub private_key: Option<SecretString>,
    /// The `kid` of that key.
    pub private_key_id: Option<String>,
    /// The subject of signed assertions, with the grant `jwt_bearer`. The default is the id of the client.
    pub subject: Option<String>,
    /// A signed assertion that somebody else made, with the grant `jwt_bearer`.
    pub assertion: Option<SecretString>,
    /// The identity provider that vouches for the user, with the grant `jwt_bearer`.
    pub identity_provider: Option<IdentityProvider>,
    /// Hosts named by metadata that may have addresses outside of the public internet.
    pub allowed_hosts: Vec<String>,
}

impl Settings {
    /// Whether the server has influence on the scopes to ask for. People see them before they agree to a login.
    pub(crate) fn has_server_scopes(&self) -> bool {
        self.grant == Grant::AuthorizationCode || self.takes_server_scopes
    }

    /// Whether the file has a secret that is sent to the authorization server, or signs what is sent there.
    pub(crate) const fn has_secret(&self) -> bool {
        self.client_secret.is_some()
            || self.private_key.is_some()
            || self.assertion.is_some()
            || self.identity_provider.is_some()
    }

    /// A warning for the operator about valid settings.
    pub const fn warning(&self) -> Option<&'static str> {
        if self.has_secret() && self.issuer.is_none() {
            return Some(
                "add `issuer` to `auth: oauth`: without it, the secret is sent to the login service that the server \
                 names first",
            );
        }
        None
    }

    /// Returns the hosts that the operator wrote, which may have any address.
    pub(crate) fn operator_hosts(&self) -> Vec<String> {
        let issuer = self.issuer.as_deref().and_then(|issuer| Url::parse(issuer).ok());
        let provider = self.identity_provider.as_ref().map(|provider| &provider.token_endpoint);
        let named = issuer.iter().chain(provider).filter_map(|url| url.host_str().map(str::to_owned));
        self.allowed_hosts.iter().cloned().chain(named).collect()
    }
}
