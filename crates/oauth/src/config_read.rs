//! Reads the settings of a login.
//!
//! Invariants: secrets are references and are not in the file itself. Combinations that cannot work are refused here, and
//! not at the first login.

use secrecy::SecretString;
use settings::{Fields, Setting};
use url::{Host, Url};

use crate::config::{ClientAuthentication, Grant, IdentityProvider, Per, ResourceParameter, Settings};
use crate::config_checks::check;

const GRANTS: [(&str, Grant); 3] = [
    ("authorization_code", Grant::AuthorizationCode),
    ("client_credentials", Grant::ClientCredentials),
    ("jwt_bearer", Grant::JwtBearer),
];
const AUTHENTICATIONS: [(&str, ClientAuthentication); 4] = [
    ("basic", ClientAuthentication::Basic),
    ("post", ClientAuthentication::Post),
    ("none", ClientAuthentication::None),
    ("private_key_jwt", ClientAuthentication::PrivateKeyJwt),
];
const PERS: [(&str, Per); 2] = [("shared", Per::Shared), ("principal", Per::Principal)];

/// The word for the scopes that a server names.
const SERVER_SCOPES: &str = "server";

/// Reads `auth`: the word `oauth`, or a mapping with the key `oauth`. Returns `None` for an invalid value, after
/// reporting it.
pub fn read_settings(setting: &Setting<'_>) -> Option<Settings> {
    if !setting.shown().is_empty() {
        return setting.choice(&[("oauth", ())]).map(|()| Settings::default());
    }
    let mut fields = setting.fields()?;
    let oauth = fields.require("oauth", "write `auth: oauth`, or `auth: {oauth: {…}}` with settings");
    fields.finish();
    read_mapping(&oauth?)
}

fn read_mapping(setting: &Setting<'_>) -> Option<Settings> {
    let mut fields = setting.fields()?;
    let scopes = fields.take("scopes");
    let takes_server_scopes = scopes.as_ref().is_some_and(|scopes| scopes.shown() == SERVER_SCOPES);
    let read = Settings {
        scopes: scopes.map(|scopes| read_scopes(&scopes)).unwrap_or_default(),
        takes_server_scopes,
        client_id: fields.parsed("client_id", "an id, which has at least one character", filled),
        client_secret: read_reference(&mut fields, "client_secret"),
        client_metadata_url: fields.part("client_metadata_url", read_metadata_url),
        resource: fields
            .parsed("resource", "a URL without a fragment, or `none`", read_resource)
            .unwrap_or_default(),
        issuer: fields.parsed(
            "issuer",
            "the URL of an issuer, such as https://login.example.org",
            read_issuer,
        ),
        grant: fields.choice("grant", &GRANTS).unwrap_or_default(),
        token_endpoint_auth: fields.choice("token_endpoint_auth", &AUTHENTICATIONS),
        per: fields.choice("per", &PERS).unwrap_or_default(),
        private_key: read_reference(&mut fields, "private_key"),
        private_key_id: fields.parsed("private_key_id", "an id, which has at least one character", filled),
        subject: fields.parsed("subject", "a subject, which has at least one character", filled),
        assertion: read_reference(&mut fields, "assertion"),
        identity_provider: fields.part("identity_provider", read_provider),
        allowed_hosts: fields.take("allowed_hosts").map(|hosts| read_hosts(&hosts)).unwrap_or_default(),
    };
    check(&read, fields.setting());
    fields.finish();
    Some(read)
}

fn read_provider(setting: &Setting<'_>) -> Option<IdentityProvider> {
    let mut fields = setting.fields()?;
    let token_endpoint = fields.require("token_endpoint", "the URL where the identity provider gives tokens");
    let client_id = fields.require("client_id", "the id of Switchyard at the identity provider");
    let client_secret = read_reference(&mut fields, "client_secret");
    let id_token = fields.require("id_token", "a reference to the ID token of the user");
    fields.finish();
    Some(IdentityProvider {
        token_endpoint: token_endpoint?.url()?,
        client_id: client_id?.parsed("an id, which has at least one character", filled)?,
        client_secret,
        id_token: read_secret(&id_token?)?,
    })
}

fn read_reference(fields: &mut Fields<'_>, name: &'static str) -> Option<SecretString> {
    read_secret(&fields.take(name)?)
}

fn read_secret(setting: &Setting<'_>) -> Option<SecretString> {
    if setting.is_literal() {
        let hint = "set a variable of the environment to it, and write `${NAME}`".to_owned();
        setting.hidden_problem("a secret stands in the file itself", Some(hint));
        return None;
    }
    setting.secret()
}

/// Reads a list of scopes. The word [`SERVER_SCOPES`] stands for those that the server names.
fn read_scopes(setting: &Setting<'_>) -> Vec<String> {
    if setting.shown() == SERVER_SCOPES {
        setting.choice(&[(SERVER_SCOPES, ())]);
        return Vec::new();
    }
    // RFC 6749, section 3.3.
    let is_one = |c: char| matches!(c, '!' | '#'..='[' | ']'..='~');
    let read = |text: &str| (!text.is_empty() && text.chars().all(is_one)).then(|| text.to_owned());
    let items = setting.list().unwrap_or_default();
    items.iter().filter_map(|item| item.parsed("one scope, without spaces", read)).collect()
}

fn read_hosts(setting: &Setting<'_>) -> Vec<String> {
    let read = |text: &str| Host::parse(text).ok().map(|host| host.to_string());
    let items = setting.list().unwrap_or_default();
    items.iter().filter_map(|item| item.parsed("a host name or address, without port", read)).collect()
}

/// Reads the URL of a client id metadata document, which is the id itself.
fn read_metadata_url(setting: &Setting<'_>) -> Option<Url> {
    let is_one = |url: &Url| url.scheme() == "https" && url.path() != "/" && url.fragment().is_none();
    let hint = "write it as `https://host/path`, without a fragment";
    setting.url_that("an https URL with a path", hint, is_one)
}

fn read_resource(text: &str) -> Option<ResourceParameter> {
    if text == "none" {
        return Some(ResourceParameter::Omitted);
    }
    let url = Url::parse(text).ok()?;
    url.fragment().is_none().then(|| ResourceParameter::Value(text.to_owned()))
}

fn read_issuer(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let is_issuer = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty();
    is_issuer.then(|| text.to_owned())
}

fn filled(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
