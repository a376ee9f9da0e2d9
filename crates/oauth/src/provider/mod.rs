//! The login service behind the authorization server of the gateway: people sign in there, and it says who they are.
//!
//! ```text
//! begin ──► page of the login service ── code ──► finish: tokens ── ID token, userinfo ──► allow list, role, view ──► Principal
//! ```
//!
//! Invariants: an answer is used only if the service that was asked gave it, and for the login that began. A person is
//! known by the issuer and `sub`, and never by an email address. Each sign-in needs a rule
//! of the operator. An email address counts only if the service has verified it. No request has the parameter `resource`, which
//! some services refuse. The tokens of the service are used here and are not stored.
//!
//! Not here: browsers, and who may begin how many logins (`downstream`).
//!
//! Source: `OpenID` Connect Core 1.0, sections 3.1 and 5.3; `OpenID` Connect Discovery 1.0; RFC 9207; RFC 9700, section 4.4.

mod github;
mod identity;
mod openid;
mod rules;

use std::time::{Duration, SystemTime};

use auth::{Denied, Person, Principal};
use json::Raw;
use net::http::{Network, RequestBuilder, WholeResponse};
use runtime::shutdown::Shutdown;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use settings::one_line;
use tokio::time::timeout;
use url::Url;

use self::identity::Identity;
pub use self::rules::{Allow, LoginIssuer, ProviderSettings};
use crate::dial::{Services, later, shown};
use crate::token::exchange_sign_in;
use crate::{
    AuthorizationRequest, AuthorizationResponse, AuthorizationServer, Discovered, Error, OwnClient, Pkce,
    Registration, ResourceParameter, Settings, TokenClient, authorization_url, register,
};

/// The longest time that a page waits for the login service.
const LONGEST: Duration = Duration::from_secs(20);
/// Limit of the name of a person in bytes.
const MAX_NAME: usize = 256;

/// The login service.
pub struct Provider {
    settings: ProviderSettings,
    profile: ServiceProfile,
    services: Services,
    rules: String,
}

/// The way in which a service says who somebody is.
enum ServiceProfile {
    OpenId(Box<openid::OpenId>),
    GitHub(Box<github::GitHub>),
}

/// A login that began. It is sealed into `state`.
#[derive(Serialize, Deserialize)]
struct StartedSignIn {
    issuer: String,
    redirect_uri: String,
    nonce: String,
    verifier: String,
}

/// Why somebody is not signed in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// The login service, or what it answered.
    #[error("{0}")]
    Service(#[from] Error),
    /// It says who the person is, and no rule lets this person in.
    #[error("`{account}` may not sign in here: {reason}")]
    NotAllowed {
        /// The id of the principal that the person would be; none if `sub` cannot be one.
        principal: Option<String>,
        /// The name of the account.
        account: String,
        /// The rule that is not met.
        reason: &'static str,
    },
}

impl Provider {
    /// The login service of `settings`.
    pub fn new(settings: ProviderSettings, network: &Network, shutdown: &Shutdown) -> Self {
        // The operator wrote these URLs, so they may have any address.
        let written = [Some(&settings.issuer.url), settings.github_api_url.as_ref()];
        let hosts = written.into_iter().flatten().filter_map(|url| url.host_str().map(str::to_owned));
        let services = Services::new(&settings.issuer.url, &hosts.collect::<Vec<_>>(), network, shutdown);
        let profile = match settings.github_api() {
            Some(api) => ServiceProfile::GitHub(Box::new(github::GitHub::new(&settings, api))),
            None => ServiceProfile::OpenId(Box::default()),
        };
        let rules = settings.fingerprint();
        Self { settings, profile, services, rules }
    }

    /// Its host, for people.
    pub fn host(&self) -> &str {
        self.settings.issuer.url.host_str().unwrap_or(&self.settings.issuer.text)
    }

    /// Its issuer.
    pub const fn issuer(&self) -> &Url {
        &self.settings.issuer.url
    }

    /// A fingerprint of the settings that decide who may sign in, and with which rights.
    pub fn rules(&self) -> &str {
        &self.rules
    }

    /// Begins a login that comes back to `redirect_uri`. `seal` makes the `state` out of a text that [`Self::finish`] needs.
    /// Returns the page of the service.
    pub async fn begin(&self, redirect_uri: &Url, seal: impl FnOnce(&str) -> String) -> Result<Url, Error> {
        let discovered = within(self.discovered()).await?;
        let registration = self.registration(&discovered, redirect_uri).await?;
        let pkce = Pkce::new();
        let started = StartedSignIn {
            issuer: self.settings.issuer.text.clone(),
            redirect_uri: redirect_uri.to_string(),
            nonce: hex::encode(rand::random::<[u8; 16]>()),
            verifier: pkce.verifier().expose_secret().to_owned(),
        };
        let text =
            serde_json::to_string(&started).map_err(|_| Error::refused("the login cannot be written"))?;
        let request = AuthorizationRequest {
            scopes: &discovered.scopes,
            state: &seal(&text),
            challenge: pkce.challenge(),
            resource: None,
        };
        let mut url = authorization_url(&discovered, &registration, &request)?;
        if url.scheme() != "https" && self.settings.issuer.url.scheme() == "https" {
            return Err(Error::refused("the authorization endpoint of the login service is not https"));
        }
        if matches!(self.profile, ServiceProfile::OpenId(_)) {
            url.query_pairs_mut().append_pair("nonce", &started.nonce);
        }
        Ok(url)
    }

    /// Finishes the login of the text that `begin` sealed, with the `response` that the browser brought.
    pub async fn finish(
        &self,
        started: &str,
        response: &AuthorizationResponse,
    ) -> Result<Principal, SignInError> {
        let started: StartedSignIn =
            serde_json::from_str(started).map_err(|_| Error::refused("the login cannot be read"))?;
        if started.issuer != self.settings.issuer.text {
            return Err(Error::refused("the login began at another login service").into());
        }
        self.admit(&within(self.identify(&started, response)).await?)
    }

    /// Redeems the code, and reads who the person is.
    async fn identify(
        &self,
        started: &StartedSignIn,
        response: &AuthorizationResponse,
    ) -> Result<Identity, Error> {
        let discovered = self.discovered().await?;
        let server = &discovered.server;
        let code = response.check(&server.issuer, server.authorization_response_iss_parameter_supported)?;
        let redirect_uri =
            Url::parse(&started.redirect_uri).map_err(|_| Error::refused("the login cannot be read"))?;
        let registration = self.registration(&discovered, &redirect_uri).await?;
        let settings = self.client_settings();
        let client = TokenClient {
            services: &self.services,
            discovered: &discovered,
            registration: &registration,
            settings: &settings,
            binding: None,
        };
        let verifier = SecretString::from(started.verifier.as_str());
        let (tokens, id_token) = exchange_sign_in(&client, code, &verifier, &discovered.scopes).await?;
        match &self.profile {
            ServiceProfile::OpenId(service) => {
                let missing =
                    || Error::refused("the login service gave no ID token; `openid` has to be a scope");
                let id_token = id_token.ok_or_else(missing)?;
                service.identify(self, &id_token, &tokens.access_token, &started.nonce).await
            }
            ServiceProfile::GitHub(service) => service.identify(self, &tokens.access_token).await,
        }
    }

    /// Applies the rules of the operator to `identity`.
    fn admit(&self, identity: &Identity) -> Result<Principal, SignInError> {
        let name = one_line(&identity.name());
        let name: String = name.chars().take(MAX_NAME).collect();
        let (issuer, claims) = (&*self.settings.issuer.text, Raw::of(&identity.claims()));
        let person = Person { name: name.as_str().into(), until: SystemTime::now() + self.settings.max_age };
        let admitted = self.settings.roles().person(issuer, &claims, person);
        // Every other refusal is one of `sub`, which then names no principal.
        let is_known = matches!(admitted, Ok(_) | Err(Denied::NoRole));
        let subject = identity.text("sub").filter(|_| is_known);
        let not_allowed = |reason| {
            let principal = subject.map(|subject| Person::id(issuer, subject));
            SignInError::NotAllowed { principal, account: name.clone(), reason }
        };
        self.settings.allow.check(issuer, identity).map_err(not_allowed)?;
        admitted.map_err(|denied| match denied {
            Denied::NoRole if identity.lacks_groups() => not_allowed(rules::TOO_MANY_GROUPS),
            Denied::NoRole => not_allowed("the login service gives this account no role that is known here"),
            _ => Error::refused("the login service names the account by an empty or very long `sub`").into(),
        })
    }

    async fn discovered(&self) -> Result<Discovered, Error> {
        let server: AuthorizationServer = match &self.profile {
            ServiceProfile::OpenId(service) => service.metadata(self).await?.server.clone(),
            ServiceProfile::GitHub(service) => service.server.clone(),
        };
        Ok(Discovered { resource: String::new(), scopes: self.settings.scopes(), server })
    }

    /// Switchyard as the service knows it.
    async fn registration(&self, discovered: &Discovered, redirect_uri: &Url) -> Result<Registration, Error> {
        let own = OwnClient { redirect_uri: redirect_uri.clone(), client_metadata_url: None };
        register(&self.services, discovered, &self.client_settings(), &own, None).await
    }

    fn client_settings(&self) -> Settings {
        Settings {
            client_id: Some(self.settings.client_id.clone()),
            client_secret: Some(self.settings.client_secret.clone()),
            resource: ResourceParameter::Omitted,
            ..Settings::default()
        }
    }

    /// Reads `url` with the access token of the person.
    async fn get(&self, url: &Url, token: &SecretString) -> Result<WholeResponse, Error> {
        let accept = SecretString::from("application/json");
        let request = RequestBuilder::new(http::Method::GET, url.clone());
        let request = request.bearer(token).header(&http::header::ACCEPT, &accept);
        let response = self.services.send(url, request).await?;
        if let Some(later) = later(&response) {
            return Err(later);
        }
        let status = response.status.as_u16();
        if response.status == http::StatusCode::OK {
            Ok(response)
        } else {
            let reason = format!("{} answered with status {status}; check `scopes`", shown(url));
            Err(Error::refused(reason))
        }
    }
}

/// Bounds the time of `work`, which may need several requests.
fn within<T>(work: impl Future<Output = Result<T, Error>>) -> impl Future<Output = Result<T, Error>> {
    // It is large, as it holds requests.
    let work = Box::pin(work);
    async {
        let late = |_| Error::later("it did not answer within 20 seconds");
        timeout(LONGEST, work).await.map_err(late)?
    }
}

#[cfg(test)]
mod github_tests;
#[cfg(test)]
mod provider_tests;
