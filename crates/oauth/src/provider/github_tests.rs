//! Logins at GitHub: no discovery and no ID token; the account comes from the API.

use serde_json::{Value, json};
use testkit::login_service::LoginService;

use super::provider_tests::{answered, provider, sign_in};

fn account(service: &LoginService) {
    service.script(|script| {
        script.github = json!({
            "user": {"id": 42, "login": "ann", "name": null, "email": "other@evil.example"},
            "user/emails": [
                {"email": "old@evil.example", "primary": false, "verified": false},
                {"email": "ann@home.example", "primary": false, "verified": true},
                {"email": "ann@example.org", "primary": true, "verified": true},
            ],
            "user/orgs": [{"login": "acme"}, {"login": "hobby"}],
        });
    });
}

fn at_github(service: &LoginService, mut changes: Value) -> super::Provider {
    changes["github_api_url"] = format!("{}/api/v3", service.issuer()).into();
    provider(service, &changes)
}

#[tokio::test]
async fn account_of_github_is_its_number_with_verified_addresses_and_organizations() {
    let service = LoginService::start();
    account(&service);
    for (allow, is_in) in [
        (json!({"emails": ["ann@example.org"]}), true),
        (json!({"domains": ["home.example"]}), true),
        (json!({"groups": ["acme"]}), true),
        (json!({"emails": ["other@evil.example", "old@evil.example"]}), false),
        (json!({"domains": ["evil.example"]}), false),
        (json!({"groups": ["other"]}), false),
    ] {
        let signed_in = sign_in(&service, &at_github(&service, json!({"allow": allow}))).await;
        assert_eq!(signed_in.is_ok(), is_in, "{allow}: {signed_in:?}");
        if let Ok(principal) = signed_in {
            assert_eq!(**principal.id(), *format!("login:{}#42", service.issuer()));
            assert_eq!(principal.shown(), "ann@example.org");
        }
    }
    assert!(service.seen().iter().all(|path| !path.contains("well-known") && path != "/keys"));
    let mapped = json!({"allow": {}, "roles_claim": "groups", "role_map": {"acme": "superuser"}});
    let principal = sign_in(&service, &at_github(&service, mapped)).await.expect("a person");
    assert_eq!(principal.role(), auth::Role::Superuser);
}

#[tokio::test]
async fn answers_of_github_that_lack_something_sign_nobody_in() {
    let service = LoginService::start();
    account(&service);
    let one = at_github(&service, json!({}));
    let page = answered(&service, &one).await.expect("an answer").page;
    assert!(page.path() == "/login/oauth/authorize" && page.query_pairs().all(|(name, _)| name != "nonce"));
    for path in ["user", "user/emails", "user/orgs"] {
        account(&service);
        service.script(|script| script.github[path] = Value::Null);
        let refused = sign_in(&service, &one).await.expect_err("nobody").to_string();
        assert!(refused.contains("check `scopes`"), "{path}: {refused}");
        service.script(|script| script.github[path] = json!("x"));
        let refused = sign_in(&service, &one).await.expect_err("nobody").to_string();
        assert!(refused.contains("the API of GitHub"), "{path}: {refused}");
    }
}
