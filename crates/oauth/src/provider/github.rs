//! The profile of GitHub, which has no OpenID: the account, its verified addresses and organizations come from its API.
//!
//! Invariant: the first 100 addresses and organizations count, each in one request.
//!
//! Source: the documentation of GitHub, "Authorizing OAuth apps" and the REST API for users, emails and organizations.

use net::http::WholeResponse;
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use url::Url;

use super::identity::Identity;
use super::{Provider, ProviderSettings};
use crate::{AuthorizationServer, Error};

/// The endpoints of GitHub, which has no metadata.
pub(super) struct GitHub {
    pub(super) server: AuthorizationServer,
    api: Url,
}

#[derive(Deserialize)]
struct User {
    id: u64,
    login: String,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    email: String,
    primary: bool,
    verified: bool,
}

#[derive(Deserialize)]
struct Organization {
    login: String,
}

impl GitHub {
    /// GitHub with the REST API at `api`.
    pub(super) fn new(settings: &ProviderSettings, api: Url) -> Self {
        let at = |path: &str| settings.issuer.url.join(path).ok();
        let server = AuthorizationServer {
            issuer: settings.issuer.text.clone(),
            authorization_endpoint: at("/login/oauth/authorize"),
            token_endpoint: at("/login/oauth/access_token"),
            registration_endpoint: None,
            token_endpoint_auth_methods_supported: Some(vec!["client_secret_post".to_owned()]),
            ..AuthorizationServer::with_default_endpoints(&settings.issuer.url)
        };
        Self { server, api }
    }

    /// Reads who the holder of `token` is.
    pub(super) async fn identify(
        &self,
        provider: &Provider,
        token: &SecretString,
    ) -> Result<Identity, Error> {
        let user: User = self.read(provider, "user", token).await?;
        let mut addresses: Vec<Address> = self.read(provider, "user/emails", token).await?;
        let organizations: Vec<Organization> = self.read(provider, "user/orgs", token).await?;
        addresses.sort_by_key(|address| !address.primary);
        let has_unverified = addresses.iter().any(|address| !address.verified);
        let verified = addresses.into_iter().filter(|address| address.verified);
        let emails: Vec<String> = verified.map(|address| address.email).collect();
        let groups: Vec<String> = organizations.into_iter().map(|one| one.login).collect();
        let claims = json!({
            "sub": user.id.to_string(), "login": user.login, "name": user.name, "groups": groups,
        });
        let Value::Object(claims) = claims else { return Ok(Identity::new(Map::new(), Map::new())) };
        let has_unverified = has_unverified && emails.is_empty();
        Ok(Identity::with_emails(claims, emails, has_unverified))
    }

    async fn read<T: DeserializeOwned>(
        &self,
        provider: &Provider,
        path: &str,
        token: &SecretString,
    ) -> Result<T, Error> {
        let mut url = self.api.clone();
        url.set_path(&format!("{}/{path}", url.path().trim_end_matches('/')));
        url.set_query(Some("per_page=100"));
        let response: WholeResponse = provider.get(&url, token).await?;
        response.json().map_err(|error| Error::refused(format!("the API of GitHub, {path}: {error}")))
    }
}
