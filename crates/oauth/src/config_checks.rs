//! Combinations of settings that cannot work, each with the setting to change.

use settings::Setting;

use crate::config::{ClientAuthentication, Grant, Per, Settings};

/// Reports what contradicts itself in `settings`, at the key of `setting`.
pub(crate) fn check(settings: &Settings, setting: &Setting<'_>) {
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
