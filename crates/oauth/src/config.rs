//! Settings of a login: `auth: oauth`, or `auth: {oauth: {…}}` with what discovery cannot find.
//!
//! Invariants: secrets are references and are not in the file itself. Combinations that cannot work are refused here, and
//! not at the first login.
//!
//! Not here: whether a server offers what the settings ask for.

use auth::Action;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use settings::{Setting, settings, words};
use url::{Host, Url};

const AUTHENTICATIONS: [(&str, ClientAuthentication); 4] = [
    ("basic", ClientAuthentication::Basic),
    ("post", ClientAuthentication::Post),
    ("none", ClientAuthentication::None),
    ("private_key_jwt", ClientAuthentication::PrivateKeyJwt),
];

/// The word for the scopes that a server names.
const SERVER_SCOPES: &str = "server";

words! {
    /// How a token is obtained.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Grant {
        /// A person logs in with a browser.
        #[default]
        AuthorizationCode = "authorization_code",
        /// Switchyard logs in with its own credentials.
        ClientCredentials = "client_credentials",
        /// Switchyard presents a signed statement about itself or a user (RFC 7523).
        JwtBearer = "jwt_bearer",
    }
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

words! {
    /// The principals that share one account.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Per {
        /// One account for all principals.
        #[default]
        Shared = "shared",
        /// One account for each principal.
        Principal = "principal",
    }
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

settings! {
    /// The identity provider of an enterprise, which vouches for a user at the authorization server (RFC 8693, ID-JAG).
    #[derive(Debug, Clone)]
    pub struct IdentityProvider {
        /// its token endpoint
        pub token_endpoint: Url, required "the URL where the identity provider gives tokens";
        /// the id of Switchyard there
        pub client_id: String, required "the id of Switchyard at the identity provider", with read_id;
        /// the secret of Switchyard there
        pub client_secret: Option<SecretString>, with read_secret;
        /// the ID token of the user, which is exchanged
        pub id_token: SecretString, required "a reference to the ID token of the user", with read_secret;
    }
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

settings! {
    /// How Switchyard logs in to one server.
    #[derive(Debug, Clone)]
    pub struct Settings {
        /// the scopes to ask for: a list, or `server` for those that the server names
        /// ([who chooses](#scopes-who-chooses))
        pub scopes: Vec<String> => "people: those that the server names; machines: none", with read_scopes;
        /// the id of a client that you registered at the login service
        pub client_id: Option<String> => "Switchyard registers itself", with read_id;
        /// the secret of that client
        pub client_secret: Option<SecretString>, with read_secret;
        /// the client id metadata document to use as the id
        pub client_metadata_url: Option<Url> => "`{public_url}/oauth/client.json`", with read_metadata_url;
        /// the resource that tokens are for (RFC 8707); `none`: the parameter is not sent
        pub resource: ResourceParameter => "the URL of the server", with read_resource;
        /// the only login service that is accepted; write it
        /// [beside every secret](#a-secret-stays-with-its-login-service)
        pub issuer: Option<String> => "the one that the server names", with read_issuer;
        /// how a token is obtained
        pub grant: Grant;
        /// how Switchyard authenticates at the token endpoint
        pub token_endpoint_auth: Option<ClientAuthentication>
            => "by the metadata of the login service", with read_authentication;
        /// the key in PEM that signs assertions
        pub private_key: Option<SecretString>, with read_secret;
        /// the `kid` of that key
        pub private_key_id: Option<String>, with read_id;
        /// the subject of an assertion that Switchyard signs (`jwt_bearer`)
        pub subject: Option<String> => "the id of the client", with read_subject;
        /// a signed assertion that somebody else made (`jwt_bearer`)
        pub assertion: Option<SecretString>, with read_secret;
        /// the identity provider of an enterprise (`jwt_bearer`)
        pub identity_provider: Option<IdentityProvider>;
        /// `principal`: each principal logs in
        pub per: Per;
        /// hosts of the login service that may have private addresses
        pub allowed_hosts: Vec<String>, with read_hosts;
    }
    other {
        /// Whether a machine asks for the scopes that the server names too.
        pub takes_server_scopes: bool;
    }
    check Settings::complete;
}

impl Settings {
    fn complete(&mut self, setting: &Setting<'_>) {
        self.takes_server_scopes =
            setting.member("scopes").is_some_and(|scopes| scopes.is_word(SERVER_SCOPES));
        check(self, setting);
    }

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

pub(crate) fn read_secret(setting: &Setting<'_>) -> Option<SecretString> {
    if setting.is_literal() {
        let hint = "set a variable of the environment to it, and write `${NAME}`".to_owned();
        setting.hidden_problem("a secret stands in the file itself", Some(hint));
        return None;
    }
    setting.secret()
}

/// Reads a list of scopes. The word [`SERVER_SCOPES`] stands for those that the server names.
pub(crate) fn read_scopes(setting: &Setting<'_>) -> Option<Vec<String>> {
    if setting.is_word(SERVER_SCOPES) {
        return Some(Vec::new());
    }
    // RFC 6749, section 3.3.
    let is_one = |c: char| matches!(c, '!' | '#'..='[' | ']'..='~');
    let read = |text: &str| (!text.is_empty() && text.chars().all(is_one)).then(|| text.to_owned());
    Some(setting.list()?.iter().filter_map(|item| item.parsed("one scope, without spaces", read)).collect())
}

fn read_hosts(setting: &Setting<'_>) -> Option<Vec<String>> {
    let read = |text: &str| Host::parse(text).ok().map(|host| host.to_string());
    let hosts = setting.list()?;
    Some(hosts.iter().filter_map(|host| host.parsed("a host name or address, without port", read)).collect())
}

/// Reads the URL of a client id metadata document, which is the id itself.
fn read_metadata_url(setting: &Setting<'_>) -> Option<Url> {
    let is_one = |url: &Url| url.scheme() == "https" && url.path() != "/" && url.fragment().is_none();
    let hint = "write it as `https://host/path`, without a fragment";
    setting.url_that("an https URL with a path", hint, is_one)
}

fn read_resource(setting: &Setting<'_>) -> Option<ResourceParameter> {
    setting.parsed("a URL without a fragment, or `none`", |text| {
        if text == "none" {
            return Some(ResourceParameter::Omitted);
        }
        let url = Url::parse(text).ok()?;
        url.fragment().is_none().then(|| ResourceParameter::Value(text.to_owned()))
    })
}

pub(crate) fn read_issuer(setting: &Setting<'_>) -> Option<String> {
    setting.parsed("the URL of an issuer, such as https://login.example.org", |text| {
        let url = Url::parse(text).ok()?;
        let is_issuer = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty();
        is_issuer.then(|| text.to_owned())
    })
}

fn read_authentication(setting: &Setting<'_>) -> Option<ClientAuthentication> {
    setting.choice(&AUTHENTICATIONS)
}

pub(crate) fn read_id(setting: &Setting<'_>) -> Option<String> {
    setting.parsed("an id, which has at least one character", filled)
}

fn read_subject(setting: &Setting<'_>) -> Option<String> {
    setting.parsed("a subject, which has at least one character", filled)
}

fn filled(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}

/// Reports what contradicts itself in `settings`, at the key of `setting`.
fn check(settings: &Settings, setting: &Setting<'_>) {
    let rules = client(settings).into_iter().chain(key(settings)).chain(machine(settings));
    for (_, message, hint) in rules.filter(|(is_wrong, ..)| *is_wrong) {
        setting.key_problem(message, Some(hint.to_owned()));
    }
}

/// Whether something is wrong, what, and what to do.
type Rule = (bool, &'static str, &'static str);

fn client(settings: &Settings) -> [Rule; 5] {
    let has_secret = settings.client_secret.is_some();
    let authentication = settings.token_endpoint_auth;
    let needs_secret = authentication.is_some_and(ClientAuthentication::needs_secret);
    [
        (
            has_secret && settings.client_id.is_none(),
            "`client_secret` has no effect without `client_id`",
            "add the `client_id` that it belongs to",
        ),
        (
            settings.client_id.is_some() && settings.client_metadata_url.is_some(),
            "expected one of `client_id` and `client_metadata_url`",
            "the URL is itself the id of the client",
        ),
        (
            has_secret && authentication.is_some() && !needs_secret,
            "`client_secret` has no effect with this `token_endpoint_auth`",
            "write `basic` or `post`, or remove it",
        ),
        (
            needs_secret && !has_secret && settings.client_id.is_some(),
            "`client_secret` is missing, and `token_endpoint_auth` asks for it",
            "add it as a reference: `${NAME}`",
        ),
        (
            needs_secret && settings.client_metadata_url.is_some(),
            "a client with a metadata URL has no secret",
            "write `token_endpoint_auth: none` or `private_key_jwt`",
        ),
    ]
}

fn key(settings: &Settings) -> [Rule; 5] {
    let has_key = settings.private_key.is_some();
    let asks_for_key = settings.token_endpoint_auth == Some(ClientAuthentication::PrivateKeyJwt);
    let signs_otherwise = settings.token_endpoint_auth.is_some() && !asks_for_key;
    [
        (
            asks_for_key && !has_key,
            "`private_key` is missing, and `token_endpoint_auth` asks for it",
            "add it as a reference: `${NAME}`",
        ),
        (
            has_key && settings.client_id.is_none() && settings.client_metadata_url.is_none(),
            "`private_key` needs the id that it was registered for",
            "add `client_id` or `client_metadata_url`",
        ),
        (
            has_key && signs_otherwise && settings.grant != Grant::JwtBearer,
            "`private_key` has no effect with this `token_endpoint_auth`",
            "write `private_key_jwt`, or remove it",
        ),
        (
            has_key && settings.client_secret.is_some() && settings.grant != Grant::JwtBearer,
            "expected one of `client_secret` and `private_key`",
            "keep the one that is registered",
        ),
        (
            settings.private_key_id.is_some() && !has_key,
            "`private_key_id` has no effect without `private_key`",
            "add the key, or remove the id",
        ),
    ]
}

fn machine(settings: &Settings) -> [Rule; 5] {
    let is_credentials = settings.grant == Grant::ClientCredentials;
    let is_bearer = settings.grant == Grant::JwtBearer;
    let has_credential = settings.client_secret.is_some() || settings.private_key.is_some();
    let sources =
        [settings.assertion.is_some(), settings.private_key.is_some(), settings.identity_provider.is_some()];
    let is_source_given = settings.assertion.is_some() || settings.identity_provider.is_some();
    [
        (
            settings.grant != Grant::AuthorizationCode && settings.per == Per::Principal,
            "a machine has one account, so `per: principal` has no effect",
            "write `per: shared`",
        ),
        (
            is_credentials && !(settings.client_id.is_some() && has_credential),
            "`grant: client_credentials` needs `client_id`, and `client_secret` or `private_key`",
            "register a client at the authorization server, and add what it gives",
        ),
        (
            is_bearer && !sources.contains(&true),
            "`grant: jwt_bearer` needs `assertion`, `private_key` or `identity_provider`",
            "add the one that makes the assertion",
        ),
        (
            is_bearer && settings.assertion.is_some() && settings.identity_provider.is_some(),
            "expected one of `assertion` and `identity_provider`",
            "keep the one that makes the assertion",
        ),
        (
            !is_bearer && (is_source_given || settings.subject.is_some()),
            "`assertion`, `subject` and `identity_provider` have no effect with this `grant`",
            "write `grant: jwt_bearer`, or remove them",
        ),
    ]
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
