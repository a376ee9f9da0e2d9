//! Settings of the login service that are refused.

use std::env::VarError;

use serde_json::{Value, json};
use settings::expand::{NoSecret, Sources, expand};
use settings::{FromSetting, Node, Problems};

use super::*;

const SECRET: &str = "LOGIN_SECRET";

/// Reads settings in which `${LOGIN_SECRET}` is a reference to `secret`.
pub(in crate::provider) fn read(own: Value, secret: &str) -> (Option<ProviderSettings>, Vec<String>) {
    let (mut node, problems) = (Node::from(own), Problems::default());
    let lookup = |name: &str| if name == SECRET { Ok(secret.to_owned()) } else { Err(VarError::NotPresent) };
    let sources = Sources {
        environment: &lookup,
        secrets: &|_| Err(NoSecret::Unset),
        without_secrets: &[],
        takes_caller_values: |_| false,
    };
    expand(&mut node, &sources, &problems);
    let settings = ProviderSettings::from_setting(&Setting::root(&node, &problems));
    (settings, problems.sorted().iter().map(ToString::to_string).collect())
}

fn problems(changes: &Value) -> Vec<String> {
    let mut own = json!({
        "issuer": "https://login.example.org", "client_id": "id", "client_secret": "${LOGIN_SECRET}",
        "allow": {"domains": ["example.org"]},
    });
    for (name, value) in changes.as_object().expect("an object") {
        own[name] = value.clone();
    }
    read(own, "x").1
}

#[test]
fn settings_without_a_secret_a_safe_issuer_or_anybody_who_may_sign_in_are_refused() {
    assert_eq!(problems(&json!({})), [""; 0]);
    let missing = read(json!({"allow": {"groups": ["a"]}}), "x").1;
    for name in ["issuer", "client_id", "client_secret"] {
        assert!(
            missing.iter().any(|problem| problem.contains(&format!("`{name}` is missing"))),
            "{missing:?}"
        );
    }
    for (changes, expected) in [
        (json!({"client_secret": "in the file"}), "a secret stands in the file itself"),
        (json!({"issuer": "http://login.example.org"}), "does not begin with https://"),
        (json!({"issuer": "https://login.microsoftonline.com/common/v2.0"}), "accounts of all companies"),
        (
            json!({"issuer": "https://login.microsoftonline.com/organizations/v2.0"}),
            "accounts of all companies",
        ),
        (json!({"issuer": "https://login.example.org/?a=b"}), "is not the URL of an issuer"),
        (json!({"allow": {"emails": ["ann", "@b", "a@b c"]}}), "is not an email address"),
        (json!({"allow": {"domains": ["@example.org"]}}), "is not the domain"),
        (json!({"allow": {"people": ["ann"]}}), "unknown key"),
        (json!({"allow": {}}), "nobody could sign in (hint: add `allow"),
        (json!({"allow": {}, "view_map": {"a": "b"}}), "nobody could sign in"),
        (json!({"role_map": {"ops": "king"}}), "role_map.ops"),
        (json!({"max_age": 5}), "out of range"),
        (json!({"github_api_url": "http://api.example.org"}), "does not begin with https://"),
    ] {
        let found = problems(&changes);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{changes}: {found:?}");
    }
    for issuer in ["http://127.0.0.1:8080", "http://localhost", "https://login.microsoftonline.com/1b2c/v2.0"]
    {
        assert_eq!(problems(&json!({"issuer": issuer})), [""; 0], "{issuer}");
    }
    assert_eq!(problems(&json!({"allow": {}, "role_map": {"ops": "superuser"}})), [""; 0], "roles decide");
}
