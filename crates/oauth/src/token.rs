//! Requests to a token endpoint, one function for each grant, and the revocation of the tokens of a login.
//!
//! Invariants: a request has the parameter `resource`, so that a token is for one MCP server. Only where the authorization
//! server refuses the parameter is the request repeated without it, once. Client credentials go to the issuer that they
//! belong to, and to no other. The id of the client is in each form, because some servers look for it only there.
//!
//! Not here: when a token is refreshed, and by whom; the answers (`token_response`).
//!
//! Source: RFC 6749, sections 2.3, 4.1.3, 4.4 and 6; RFC 7009; RFC 7523; RFC 8693; RFC 8707;
//! draft-ietf-oauth-identity-assertion-authz-grant (ID-JAG).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use url::{Url, form_urlencoded};

use crate::assertion::sign;
use crate::config::{ClientAuthentication, IdentityProvider, ResourceParameter, Settings};
use crate::dial::{Services, later};
use crate::discovery::Discovered;
use crate::error::Error;
use crate::issuer_binding::IssuerBinding;
use crate::limits::{self, MAX_ACCESS_TOKEN, MAX_ID_TOKEN};
use crate::registration::Registration;
use crate::token_response::{Granted, Login, Tokens, may_refuse_resource, read};
use net::http::{RequestBuilder, WholeResponse};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The context of requests to one token endpoint.
#[derive(Clone)]
pub struct TokenClient<'a> {
    /// The way to the authorization server.
    pub services: &'a Services,
    /// The authorization server.
    pub discovered: &'a Discovered,
    /// Switchyard as it knows it.
    pub registration: &'a Registration,
    /// The settings of the login.
    pub settings: &'a Settings,
    /// Where credentials of the settings may be sent; `None` if none is sent.
    pub binding: Option<IssuerBinding>,
}

/// The fields of one form. Those with a secret are also listed in `secrets`.
#[derive(Default, Clone)]
struct Fields {
    pairs: Vec<(&'static str, SecretString)>,
    secrets: Vec<SecretString>,
}

impl Fields {
    fn of(grant: &str) -> Self {
        let mut fields = Self::default();
        fields.plain("grant_type", grant);
        fields
    }

    fn plain(&mut self, name: &'static str, value: &str) {
        self.pairs.push((name, value.into()));
    }

    fn secret(&mut self, name: &'static str, value: &SecretString) {
        self.pairs.push((name, value.clone()));
        self.secrets.push(value.clone());
    }

    /// Returns the secrets of the form, which no error may contain.
    fn secrets(&self) -> &[SecretString] {
        &self.secrets
    }

    fn form(&self, request: RequestBuilder) -> RequestBuilder {
        let pairs: Vec<(&str, &str)> =
            self.pairs.iter().map(|(name, value)| (*name, value.expose_secret())).collect();
        request.form(&pairs)
    }
}

/// Exchanges the code of an authorization response. `scopes` are those of the request.
pub async fn exchange_code(
    client: &TokenClient<'_>,
    code: &SecretString,
    verifier: &SecretString,
    scopes: &[String],
) -> Result<Tokens, Error> {
    redeem(client, code, verifier).await?.into_tokens(scopes)
}

/// Exchanges the code of a person who signs in, like [`exchange_code`]. Returns the ID token too, if there is one.
pub(crate) async fn exchange_sign_in(
    client: &TokenClient<'_>,
    code: &SecretString,
    verifier: &SecretString,
    scopes: &[String],
) -> Result<(Tokens, Option<SecretString>), Error> {
    let granted = redeem(client, code, verifier).await?;
    let id_token = granted.id_token.as_deref().map(SecretString::from);
    limits::check("an ID token", granted.id_token.as_deref().unwrap_or_default(), MAX_ID_TOKEN)?;
    Ok((granted.into_tokens(scopes)?, id_token))
}

async fn redeem(
    client: &TokenClient<'_>,
    code: &SecretString,
    verifier: &SecretString,
) -> Result<Granted, Error> {
    let mut fields = Fields::of("authorization_code");
    fields.secret("code", code);
    fields.secret("code_verifier", verifier);
    fields.plain("redirect_uri", &client.registration.redirect_uri);
    client.grant(fields, Login::Person).await
}

/// Gets the next tokens. A server that does not rotate refresh tokens sends none, and the former one stays.
pub async fn refresh(client: &TokenClient<'_>, former: &Tokens) -> Result<Tokens, Error> {
    let missing = || Error::login_required("the login has ended, and the server gave no refresh token");
    let token = former.refresh_token.as_ref().ok_or_else(missing)?;
    let mut fields = Fields::of("refresh_token");
    fields.secret("refresh_token", token);
    let next = client.grant(fields, Login::Person).await?.into_tokens(&former.scopes)?;
    Ok(Tokens {
        refresh_token: next.refresh_token.or_else(|| Some(token.clone())),
        account: next.account.or_else(|| former.account.clone()),
        ..next
    })
}

/// Gets a token for Switchyard itself.
pub async fn client_credentials(client: &TokenClient<'_>) -> Result<Tokens, Error> {
    client.for_machine(Fields::of("client_credentials")).await
}

/// Gets a token for an assertion: the one of the settings, one of the identity provider, or one that Switchyard signs.
pub async fn jwt_bearer(client: &TokenClient<'_>) -> Result<Tokens, Error> {
    let settings = client.settings;
    let assertion = match (&settings.assertion, &settings.identity_provider) {
        (Some(assertion), _) => assertion.clone(),
        (None, Some(provider)) => token_exchange(client, provider).await?,
        (None, None) => {
            let id = &client.registration.client_id;
            let subject = settings.subject.as_ref().unwrap_or(id);
            sign(settings, id, subject, &client.discovered.server.issuer)?
        }
    };
    let mut fields = Fields::of(JWT_BEARER);
    fields.secret("assertion", &assertion);
    client.for_machine(fields).await
}

/// Exchanges the ID token of a user for an assertion that the authorization server accepts (ID-JAG).
pub async fn token_exchange(
    client: &TokenClient<'_>,
    provider: &IdentityProvider,
) -> Result<SecretString, Error> {
    let mut fields = Fields::default();
    fields.plain("grant_type", TOKEN_EXCHANGE);
    fields.plain("requested_token_type", ID_JAG);
    fields.plain("audience", &client.discovered.server.issuer);
    fields.plain("resource", &client.discovered.resource);
    fields.scope(&client.discovered.scopes);
    fields.secret("subject_token", &provider.id_token);
    fields.plain("subject_token_type", ID_TOKEN);
    fields.plain("client_id", &provider.client_id);
    let mut request = new_request(&provider.token_endpoint);
    if let Some(secret) = &provider.client_secret {
        fields.secrets.push(secret.clone());
        request = request.header(&AUTHORIZATION, &basic(&provider.client_id, secret));
    }
    let request = fields.form(request);
    let response = client.services.send(&provider.token_endpoint, request).await?;
    let granted = read(&response, Login::Machine, fields.secrets())?;
    if granted.issued_token_type.as_deref() == Some(ID_JAG) {
        limits::check("an assertion", &granted.access_token, MAX_ACCESS_TOKEN)?;
        return Ok(granted.access_token.into());
    }
    Err(Error::refused("the identity provider gave another token than an ID-JAG, which was asked for"))
}

impl Fields {
    fn scope(&mut self, scopes: &[String]) {
        if !scopes.is_empty() {
            self.plain("scope", &scopes.join(" "));
        }
    }
}

impl TokenClient<'_> {
    async fn for_machine(&self, mut fields: Fields) -> Result<Tokens, Error> {
        let scopes = &self.discovered.scopes;
        fields.scope(scopes);
        self.grant(fields, Login::Machine).await?.into_tokens(scopes)
    }

    async fn grant(&self, fields: Fields, login: Login) -> Result<Granted, Error> {
        let Some(resource) = resource_parameter(self.services, self.settings, self.discovered) else {
            let (response, fields) = self.ask(fields).await?;
            return read(&response, login, fields.secrets());
        };
        let mut with_resource = fields.clone();
        with_resource.plain("resource", resource);
        let (response, sent) = self.ask(with_resource).await?;
        let granted = read(&response, login, sent.secrets());
        if self.settings.resource != ResourceParameter::Discovered || !may_refuse_resource(&response) {
            return granted;
        }
        let (second, sent) = self.ask(fields).await?;
        match read(&second, login, sent.secrets()) {
            // The refusal of the complete request says more, unless the grant itself is over.
            Err(Error::LoginRequired { reason }) => Err(Error::LoginRequired { reason }),
            Err(_) => granted,
            Ok(second) => {
                self.services.omit_resource_at(&self.discovered.server.issuer);
                Ok(second)
            }
        }
    }

    async fn ask(&self, mut fields: Fields) -> Result<(WholeResponse, Fields), Error> {
        let missing = || Error::refused("the authorization server names no token endpoint");
        let endpoint = self.discovered.server.token_endpoint.as_ref().ok_or_else(missing)?;
        let request = self.request(endpoint, &mut fields)?;
        Ok((self.services.send(endpoint, request).await?, fields))
    }

    /// Returns a request with `fields` that authenticates the client.
    fn request(&self, endpoint: &Url, fields: &mut Fields) -> Result<RequestBuilder, Error> {
        let (registration, issuer) = (self.registration, &self.discovered.server.issuer);
        if registration.issuer != *issuer {
            return Err(Error::refused("the client is registered at another issuer, so nothing was sent"));
        }
        self.binding.as_ref().map_or(Ok(()), |binding| binding.check_endpoint(endpoint))?;
        let id = &registration.client_id;
        let no_secret =
            || Error::Unsupported { what: "the client has no secret; fill in `client_secret`".into() };
        let secret = registration.client_secret.as_ref().ok_or_else(no_secret);
        let mut request = new_request(endpoint);
        // RFC 6749, section 3.2.1, allows it beside each kind of authentication.
        fields.plain("client_id", id);
        match registration.authentication {
            ClientAuthentication::Basic => {
                let secret = secret?;
                fields.secrets.push(secret.clone());
                request = request.header(&AUTHORIZATION, &basic(id, secret));
            }
            ClientAuthentication::Post => fields.secret("client_secret", secret?),
            ClientAuthentication::None => {}
            ClientAuthentication::PrivateKeyJwt => {
                fields.plain("client_assertion_type", CLIENT_ASSERTION);
                fields.secret("client_assertion", &sign(self.settings, id, id, issuer)?);
            }
        }
        Ok(fields.form(request))
    }
}

/// Returns the value of the parameter `resource`, if it is sent.
pub(crate) fn resource_parameter<'d>(
    services: &Services,
    settings: &Settings,
    discovered: &'d Discovered,
) -> Option<&'d str> {
    let is_omitted = match settings.resource {
        ResourceParameter::Omitted => true,
        ResourceParameter::Value(_) => false,
        ResourceParameter::Discovered => services.omits_resource_at(&discovered.server.issuer),
    };
    (!is_omitted).then_some(discovered.resource.as_str())
}

fn new_request(endpoint: &Url) -> RequestBuilder {
    // GitHub answers with a form unless JSON is asked for.
    RequestBuilder::new(Method::POST, endpoint.clone())
        .header(&ACCEPT, &SecretString::from("application/json"))
}

/// Returns the value of `Authorization`. Id and secret are encoded as in a form (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &SecretString) -> SecretString {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = Zeroizing::new(format!("{}:{}", encoded(id), encoded(secret.expose_secret())));
    SecretString::from(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}

/// Revokes the refresh token and the access token, if the authorization server can. Both are tried, whatever the first
/// attempt gives.
pub async fn revoke(client: &TokenClient<'_>, tokens: &Tokens) -> Result<(), Error> {
    let Some(endpoint) = &client.discovered.server.revocation_endpoint else { return Ok(()) };
    let mut outcome = Ok(());
    let refresh = tokens.refresh_token.iter().map(|token| (token, "refresh_token"));
    for (token, hint) in refresh.chain([(&tokens.access_token, "access_token")]) {
        let mut fields = Fields::default();
        fields.secret("token", token);
        fields.plain("token_type_hint", hint);
        let request = client.request(endpoint, &mut fields)?;
        let answered = client.services.send(endpoint, request).await.and_then(|response| {
            // Some servers revoke refresh tokens only (RFC 7009, section 2.2.1), and access tokens then end by themselves.
            let is_done = response.status.is_success() || hint == "access_token" && response.status == 400;
            let refused =
                || Error::refused(format!("the token was not revoked: status {}", response.status.as_u16()));
            if is_done { Ok(()) } else { Err(later(&response).unwrap_or_else(refused)) }
        });
        outcome = outcome.and(answered);
    }
    outcome
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
