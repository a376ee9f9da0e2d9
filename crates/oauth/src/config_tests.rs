//! Tests of the settings: what is read, and what is refused with which words.

use std::env::VarError;

use secrecy::ExposeSecret;
use serde_json::{Value, json};
use settings::expand::{NoSecret, Sources, expand};
use settings::{FromSetting, Node, Problems};

use super::*;

const SECRET: &str = "canary-secret-value";

/// Reads `oauth` of `auth`. `${SECRET}` is a reference to [`SECRET`].
fn read(auth: Value) -> (Option<Settings>, Vec<String>) {
    let (mut node, problems) = (Node::from(auth), Problems::default());
    let lookup =
        |name: &str| if name == "SECRET" { Ok(SECRET.to_owned()) } else { Err(VarError::NotPresent) };
    let sources = Sources {
        environment: &lookup,
        secrets: &|_| Err(NoSecret::Unset),
        without_secrets: &[],
        takes_caller_values: |_| false,
    };
    expand(&mut node, &sources, &problems);
    let oauth = Setting::root(&node, &problems).member("oauth").expect("it is there");
    let settings = Settings::from_setting(&oauth);
    (settings, problems.sorted().iter().map(ToString::to_string).collect())
}

#[allow(clippy::needless_pass_by_value)] // callers write `json!` into the call
fn oauth(settings: Value) -> Vec<String> {
    read(json!({"oauth": settings})).1
}

#[test]
fn an_empty_mapping_is_all_defaults() {
    for auth in [json!({"oauth": {}}), json!({"oauth": null})] {
        let (settings, problems) = read(auth.clone());
        assert_eq!(problems, [""; 0], "{auth}");
        let settings = settings.expect("settings");
        assert_eq!((settings.grant, settings.per), (Grant::AuthorizationCode, Per::Shared));
        assert!(settings.scopes.is_empty() && settings.token_endpoint_auth.is_none());
    }
}

#[test]
fn every_setting_is_read() {
    let (settings, problems) = read(json!({"oauth": {
        "scopes": ["a:b", "c"], "client_id": "id", "client_secret": "${SECRET}", "resource": "https://h/mcp",
        "issuer": "https://login.example.org/t", "token_endpoint_auth": "post", "per": "principal",
        "allowed_hosts": ["10.0.0.1", "Login.Internal"],
    }}));
    assert_eq!(problems, [""; 0]);
    let settings = settings.expect("settings");
    assert_eq!(settings.scopes, ["a:b", "c"]);
    assert_eq!(settings.client_secret.as_ref().map(ExposeSecret::expose_secret), Some(SECRET));
    assert_eq!(settings.token_endpoint_auth, Some(ClientAuthentication::Post));
    assert_eq!((settings.per, settings.grant), (Per::Principal, Grant::AuthorizationCode));
    assert_eq!(settings.operator_hosts(), ["10.0.0.1", "login.internal", "login.example.org"]);
    assert!(!format!("{settings:?}").contains(SECRET));
}

#[test]
fn machines_have_their_settings() {
    for settings in [
        json!({"grant": "client_credentials", "client_id": "id", "client_secret": "${SECRET}"}),
        json!({"grant": "client_credentials", "client_id": "id", "private_key": "${SECRET}", "private_key_id": "k"}),
        json!({"grant": "jwt_bearer", "client_id": "id", "assertion": "${SECRET}"}),
        json!({"grant": "jwt_bearer", "client_id": "id", "private_key": "${SECRET}", "subject": "u"}),
        json!({"grant": "jwt_bearer", "client_id": "id", "client_secret": "${SECRET}", "identity_provider": {
            "token_endpoint": "https://idp.example.org/token", "client_id": "sw", "id_token": "${SECRET}",
        }}),
    ] {
        assert_eq!(oauth(settings.clone()), [""; 0], "{settings}");
    }
}

#[test]
fn combinations_that_cannot_work_are_refused_with_a_hint() {
    for (settings, words) in [
        (json!({"client_secret": "${SECRET}"}), "no effect without `client_id`"),
        (json!({"client_id": "i", "client_metadata_url": "https://h/c.json"}), "expected one of `client_id`"),
        (
            json!({"client_id": "i", "client_secret": "${SECRET}", "token_endpoint_auth": "none"}),
            "no effect with this `token_endpoint_auth`",
        ),
        (json!({"client_id": "i", "token_endpoint_auth": "basic"}), "`client_secret` is missing"),
        (json!({"client_id": "i", "token_endpoint_auth": "private_key_jwt"}), "`private_key` is missing"),
        (json!({"private_key": "${SECRET}"}), "needs the id that it was registered for"),
        (json!({"private_key_id": "k"}), "no effect without `private_key`"),
        (json!({"grant": "client_credentials"}), "needs `client_id`"),
        (
            json!({"grant": "client_credentials", "client_id": "i", "client_secret": "${SECRET}", "per": "principal"}),
            "a machine has one account",
        ),
        (json!({"grant": "jwt_bearer", "client_id": "i"}), "needs `assertion`"),
        (json!({"assertion": "${SECRET}"}), "no effect with this `grant`"),
        (json!({"client_id": "i", "client_secret": "canary"}), "a secret stands in the file itself"),
        (json!({"client_metadata_url": "http://h/c.json"}), "is not an https URL with a path"),
        (json!({"resource": "https://h/#x"}), "is not a URL without a fragment"),
        (json!({"issuer": "login"}), "is not the URL of an issuer"),
        (json!({"scopes": ["a b"]}), "is not one scope"),
        (json!({"allowed_hosts": ["http://h:1"]}), "is not a host name"),
        (json!({"scope": ["a"]}), "did you mean `scopes`?"),
    ] {
        let problems = oauth(settings.clone());
        let found = problems.iter().find(|problem| problem.contains(words));
        let found = found.unwrap_or_else(|| panic!("{settings}: {problems:?}"));
        assert!(found.starts_with("oauth"), "{found}");
        assert!(!problems.join("\n").contains("canary"), "{problems:?}");
    }
}
