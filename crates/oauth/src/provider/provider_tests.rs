//! Logins at a login service of the tests: who is signed in, and every answer that is refused.

use std::collections::HashSet;

use auth::{Principal, Role};
use net::http::Network;
use runtime::shutdown::Shutdown;
use serde_json::{Value, json};
use testkit::login_service::{CLIENT, LoginService, SECRET};
use url::Url;

use super::*;

/// The provider of `service` with `changes` to its settings.
pub(super) fn provider(service: &LoginService, changes: &Value) -> Provider {
    let mut own = json!({
        "issuer": service.issuer(), "client_id": CLIENT, "client_secret": "${LOGIN_SECRET}",
        "allow": {"emails": ["Ann@example.org"]},
    });
    for (name, value) in changes.as_object().expect("an object") {
        own[name] = value.clone();
    }
    let (read, problems) = rules::tests::read(own, SECRET);
    let read = read.unwrap_or_else(|| panic!("{problems:?}"));
    Provider::new(read, &Network::default(), &Shutdown::new())
}

/// A login that was answered, before it is finished.
pub(super) struct Answered {
    pub(super) started: String,
    pub(super) response: AuthorizationResponse,
    pub(super) page: Url,
}

pub(super) async fn answered(service: &LoginService, provider: &Provider) -> Result<Answered, Error> {
    let callback = Url::parse("https://gw.example/oauth/login-callback").expect("a URL");
    let mut started = String::new();
    let page = provider.begin(&callback, |text| {
        started = text.to_owned();
        "a state".to_owned()
    });
    let page = page.await?;
    let back = service.agree(&page);
    let of = |name: &str| Some(back.query_pairs().find(|(other, _)| other == name)?.1.into_owned());
    let response = AuthorizationResponse {
        code: of("code").map(Into::into),
        state: of("state"),
        iss: of("iss"),
        error: of("error"),
        error_description: None,
    };
    Ok(Answered { started, response, page })
}

pub(super) async fn sign_in(service: &LoginService, provider: &Provider) -> Result<Principal, SignInError> {
    let answered = answered(service, provider).await?;
    provider.finish(&answered.started, &answered.response).await
}

/// The reason why nobody was signed in.
async fn refusal(service: &LoginService, provider: &Provider) -> String {
    sign_in(service, provider).await.expect_err("nobody is signed in").to_string()
}

#[tokio::test]
async fn person_is_known_by_issuer_and_subject_and_signed_in_with_pkce() {
    let service = LoginService::start();
    let provider = provider(&service, &json!({}));
    let answered = answered(&service, &provider).await.expect("an answer");
    let query: Vec<_> = answered.page.query_pairs().map(|(name, _)| name.into_owned()).collect();
    for name in ["response_type", "client_id", "redirect_uri", "state", "nonce", "code_challenge", "scope"] {
        assert_eq!(query.iter().filter(|other| *other == name).count(), 1, "{name}");
    }
    assert!(!query.contains(&"resource".to_owned()));
    let principal = provider.finish(&answered.started, &answered.response).await.expect("a person");
    let place = service.issuer();
    assert_eq!(**principal.id(), *format!("login:{place}#subject-1"));
    assert_eq!(
        (principal.role(), principal.view(), principal.shown()),
        (Role::Caller, None, "ann@example.org")
    );
    let person = principal.person().expect("a person");
    let week = person.until.duration_since(SystemTime::now()).expect("later").as_secs();
    assert!((604_700..=604_800).contains(&week));
    let form = service.forms().remove(0);
    assert!(form.contains_key("code_verifier") && !form.contains_key("resource"), "{form:?}");
    // The code is used: a second answer of the same login is refused.
    let again = provider.finish(&answered.started, &answered.response).await;
    assert!(matches!(again, Err(SignInError::Service(Error::LoginRequired { .. }))), "{again:?}");
}

#[tokio::test]
async fn tokens_of_another_login_issuer_client_or_time_sign_nobody_in() {
    let service = LoginService::start();
    let provider = provider(&service, &json!({}));
    for (claims, expected) in [
        (json!({"nonce": "another"}), "made for another login"),
        (json!({"nonce": null}), "made for another login"),
        (json!({"iss": "https://attacker.example"}), "foreign issuer"),
        (json!({"iss": null}), "missing or mistyped claim"),
        (json!({"aud": "another"}), "foreign audience"),
        (json!({"aud": [CLIENT, "another"]}), "not listed in `azp`"),
        (json!({"aud": [CLIENT, "another"], "azp": "another"}), "not listed in `azp`"),
        (json!({"azp": "another"}), "not listed in `azp`"),
        (json!({"exp": 1_000}), "expired"),
        (json!({"exp": null}), "missing or mistyped claim"),
        (json!({"nbf": 99_999_999_999_u64}), "not yet valid"),
        (json!({"sub": null}), "missing or mistyped claim"),
        (json!({"sub": ""}), "empty or very long `sub`"),
        (json!({"sub": "s".repeat(300)}), "empty or very long `sub`"),
    ] {
        service.script(|script| {
            script.claims = json!({"email": "ann@example.org", "email_verified": true});
            for (name, value) in claims.as_object().expect("an object") {
                script.claims[name] = value.clone();
            }
        });
        let refused = refusal(&service, &provider).await;
        assert!(refused.contains(expected), "{claims}: {refused}");
    }
    let both = json!({"email": "ann@example.org", "email_verified": true, "aud": [CLIENT, "another"], "azp": CLIENT});
    service.script(|script| script.claims = both);
    sign_in(&service, &provider).await.expect("it is for this client");
}

#[tokio::test]
async fn answer_of_another_issuer_is_not_redeemed() {
    let service = LoginService::start();
    let provider = provider(&service, &json!({}));
    for iss in ["https://attacker.example", "", "https://127.0.0.1"] {
        service.script(|script| script.iss = Some(iss.to_owned()));
        let refused = sign_in(&service, &provider).await;
        assert!(matches!(refused, Err(SignInError::Service(Error::Refused { .. }))), "{iss}: {refused:?}");
    }
    assert_eq!(service.forms().len(), 0, "no code was sent");
    let other = LoginService::start();
    let elsewhere = super::provider_tests::provider(&other, &json!({}));
    service.script(|script| script.iss = None);
    let answered = answered(&service, &provider).await.expect("an answer");
    let refused = elsewhere.finish(&answered.started, &answered.response).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("another login service")));
    assert_eq!((service.forms().len(), other.forms().len()), (0, 0));
}

#[tokio::test]
async fn keys_are_fetched_again_for_a_new_key_and_a_foreign_signature_is_refused() {
    let service = LoginService::start();
    let provider = provider(&service, &json!({}));
    let fetches = || service.seen().iter().filter(|path| *path == "/keys").count();
    for _ in 0..3 {
        sign_in(&service, &provider).await.expect("a person");
    }
    assert_eq!(fetches(), 1);
    service.script(|script| script.kid = "2".to_owned());
    sign_in(&service, &provider).await.expect("the key was rotated");
    assert_eq!(fetches(), 2);
    service.script(|script| script.signs_with_other_key = true);
    let refused = refusal(&service, &provider).await;
    assert!(refused.contains("bad signature"), "{refused}");
    assert_eq!(service.seen().iter().filter(|path| path.contains("well-known")).count(), 1);
}

#[tokio::test]
async fn only_people_on_a_list_are_let_in_and_an_address_has_to_be_verified() {
    let service = LoginService::start();
    let emails = json!({"emails": ["ANN@example.org"]});
    let domains = json!({"domains": ["Example.org"]});
    let groups = json!({"groups": ["staff", "Two Words"]});
    let yes = json!({"email": "ann@example.org", "email_verified": true});
    let text = json!({"email": "ann@example.org", "email_verified": "true"});
    let entra = json!({"email": "ann@example.org", "email_verified": null, "xms_edov": true});
    let no = json!({"email": "ann@example.org", "email_verified": false});
    let unsaid = json!({"email": "ann@example.org", "email_verified": null});
    let contradicted = json!({"email": "ann@example.org", "email_verified": false, "xms_edov": true});
    let none = json!({"email": null, "email_verified": true});
    let other = json!({"email": "bob@example.org", "email_verified": true});
    let below = json!({"email": "ann@mail.example.org", "email_verified": true});
    let behind = json!({"email": "ann@example.org@evil.example", "email_verified": true});
    let similar = json!({"email": "ann@notexample.org", "email_verified": true});
    let with = |groups: Value| json!({"email": null, "groups": groups});
    let too_many = json!({"email": null, "_claim_names": {"groups": "src1"}});
    for (allow, claims, reason) in [
        (&emails, &yes, None),
        (&emails, &text, None),
        (&emails, &entra, None),
        (&emails, &no, Some("not verified")),
        (&emails, &unsaid, Some("not verified")),
        (&emails, &contradicted, Some("not verified")),
        (&emails, &none, Some("names no email address")),
        (&emails, &other, Some("not among the people")),
        (&domains, &yes, None),
        (&domains, &other, None),
        (&domains, &no, Some("not verified")),
        (&domains, &below, Some("not among the people")),
        (&domains, &behind, Some("not among the people")),
        (&domains, &similar, Some("not among the people")),
        (&groups, &with(json!(["x", "staff"])), None),
        (&groups, &with(json!(["Two Words"])), None),
        (&groups, &with(json!(["Staff", "Two", "staff Two Words"])), Some("not among the people")),
        (&groups, &with(json!("staff")), Some("not among the people")),
        (&groups, &yes, Some("not among the people")),
        (&groups, &too_many, Some("more groups than")),
    ] {
        service.script(|script| script.claims = claims.clone());
        let signed_in = sign_in(&service, &provider(&service, &json!({"allow": allow}))).await;
        match (signed_in, reason) {
            (Ok(_), None) => {}
            (Err(error @ SignInError::NotAllowed { .. }), Some(reason)) => {
                assert!(error.to_string().contains(reason), "{allow} {claims}: {error}");
            }
            (other, _) => panic!("{allow} {claims}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn refused_person_is_a_principal_only_if_sub_can_be_one() {
    let service = LoginService::start();
    let allow = json!({"allow": {"emails": ["ann@example.org"]}});
    for (sub, is_one) in [
        ("subject-1".to_owned(), true),
        (String::new(), false),
        ("s".repeat(300), false),
        ("a\nb".into(), false),
    ] {
        let email = "bob@example.org";
        service.script(|script| script.claims = json!({"sub": sub, "email": email, "email_verified": true}));
        match sign_in(&service, &provider(&service, &allow)).await {
            Err(SignInError::NotAllowed { principal, .. }) => {
                assert_eq!(principal.is_some(), is_one, "{sub}");
            }
            other => panic!("{sub}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn userinfo_adds_claims_of_the_same_person_and_replaces_none() {
    let service = LoginService::start();
    let allow = json!({"allow": {"emails": ["ann@example.org"]}});
    let verified = json!({"sub": "subject-1", "email": "ann@example.org", "email_verified": true});
    for (claims, userinfo, is_in) in [
        (json!({"email": null}), verified.clone(), true),
        // The address of one document is not verified by the other one.
        (json!({"email": "ann@example.org"}), json!({"sub": "subject-1", "email_verified": true}), false),
        (
            json!({"email": "ann@example.org", "email_verified": false}),
            json!({"sub": "subject-1", "email": "b@b.example", "email_verified": true}),
            false,
        ),
        (
            json!({"email": null}),
            json!({"sub": "another", "email": "ann@example.org", "email_verified": true}),
            false,
        ),
        (json!({"email": null}), json!({"email": "ann@example.org", "email_verified": true}), false),
        (json!({"email": null}), json!([]), false),
    ] {
        service.script(|script| (script.claims, script.userinfo) = (claims.clone(), userinfo.clone()));
        let signed_in = sign_in(&service, &provider(&service, &allow)).await;
        assert_eq!(signed_in.is_ok(), is_in, "{claims} {userinfo}: {signed_in:?}");
    }
    // A role of userinfo counts only where the token has none.
    let mapped = json!({"allow": {"emails": ["ann@example.org"]}, "role_map": {"ops": "superuser", "dev": "reader"}, "roles_claim": "groups"});
    for (groups, expected) in [(json!(["dev"]), Role::Reader), (Value::Null, Role::Superuser)] {
        service.script(|script| {
            script.claims = json!({"email": "ann@example.org", "email_verified": true, "groups": groups});
            script.userinfo = json!({"sub": "subject-1", "groups": ["ops"]});
        });
        let principal = sign_in(&service, &provider(&service, &mapped)).await.expect("a person");
        assert_eq!(principal.role(), expected);
    }
}

#[tokio::test]
async fn role_and_view_come_from_claims_and_from_nothing_else() {
    use Role::{Caller, Reader, Superuser};
    let service = LoginService::start();
    let listed = json!({"emails": ["ann@example.org"]});
    let roles =
        json!({"allow": {}, "roles_claim": "groups", "role_map": {"ops": "superuser", "dev": "caller"}});
    let views = json!({"allow": listed, "view_map": {"help": "support", "staff": "*"}});
    let both = json!({
        "allow": {}, "roles_claim": "roles", "role_map": {"ops": "superuser", "dev": "reader"},
        "view_claim": "team.name", "view_map": {"help": "support"},
    });
    let email_roles =
        json!({"allow": {}, "roles_claim": "email", "role_map": {"ann@example.org": "superuser"}});
    let plain = json!({"allow": listed});
    for (settings, claims, expected) in [
        (&plain, json!({"roles": ["superuser"]}), Some((Caller, None))),
        (&roles, json!({"groups": ["dev"]}), Some((Caller, None))),
        (&roles, json!({"groups": ["dev", "ops"]}), Some((Superuser, None))),
        (&roles, json!({"groups": ["superuser"]}), None),
        (&roles, json!({}), None),
        (&views, json!({"groups": ["help"]}), Some((Caller, Some("support")))),
        (&views, json!({"groups": ["staff"]}), Some((Caller, None))),
        (&views, json!({}), Some((Caller, Some("")))),
        (&both, json!({"roles": "ops", "team": {"name": "help"}}), Some((Caller, Some("support")))),
        (&both, json!({"roles": "dev", "team": {"name": "x"}}), Some((Reader, Some("")))),
        (&email_roles, json!({}), Some((Superuser, None))),
        (&email_roles, json!({"email_verified": false}), None),
    ] {
        service.script(|script| {
            script.claims = json!({"email": "ann@example.org", "email_verified": true});
            for (name, value) in claims.as_object().expect("an object") {
                script.claims[name] = value.clone();
            }
        });
        let signed_in = sign_in(&service, &provider(&service, settings)).await;
        let found = signed_in.ok().map(|one| (one.role(), one.view().map(ToString::to_string)));
        let expected = expected.map(|(role, view)| (role, view.map(str::to_owned)));
        assert_eq!(found, expected, "{settings} {claims}");
    }
}

#[tokio::test]
async fn service_that_is_down_or_wrong_says_so_and_is_not_asked_without_end() {
    let mut service = LoginService::start();
    let one = provider(&service, &json!({}));
    service.kill();
    for _ in 0..100 {
        let refused = sign_in(&service, &one).await;
        assert!(matches!(refused, Err(SignInError::Service(Error::Later { .. }))), "{refused:?}");
    }
    service.restart();
    let refused = sign_in(&service, &one).await;
    assert!(refused.is_err(), "the failure is remembered for some seconds: {refused:?}");
    assert_eq!(service.seen().len(), 0);
    let one = provider(&service, &json!({}));
    service.script(|script| script.status = Some(500));
    let refused = sign_in(&service, &one).await;
    assert!(matches!(refused, Err(SignInError::Service(Error::Later { .. }))), "{refused:?}");
    service.script(|script| (script.status, script.error) = (None, Some("access_denied".to_owned())));
    let refused = sign_in(&service, &one).await;
    assert!(matches!(refused, Err(SignInError::Service(Error::LoginRequired { .. }))), "{refused:?}");
    service.script(|script| script.error = None);
    for (metadata, expected) in [
        (json!({"issuer": "https://attacker.example"}), "of another issuer"),
        (json!({"issuer": "https://login.example/{tenantid}/v2.0"}), "the id of your tenant"),
        (json!({"authorization_endpoint": null}), "no authorization endpoint"),
        (json!({"token_endpoint": null}), "no token endpoint"),
        (json!({"jwks_uri": null}), "names no `jwks_uri`"),
        (json!({"jwks_uri": "http://169.254.169.254/keys"}), "not contacted"),
        (json!({"token_endpoint": "http://169.254.169.254/token"}), "not contacted"),
        (json!({"authorization_endpoint": "javascript:alert(1)//h"}), "no authorization endpoint"),
    ] {
        service.script(|script| script.metadata = metadata.clone());
        let refused = refusal(&service, &provider(&service, &json!({}))).await;
        assert!(refused.contains(expected), "{metadata}: {refused}");
        assert!(!refused.contains("canary"), "{refused}");
    }
}

#[tokio::test]
async fn rules_have_another_fingerprint_after_each_change_of_who_is_let_in() {
    let service = LoginService::start();
    let of = |changes: Value| provider(&service, &changes).rules().to_owned();
    let plain = of(json!({}));
    assert_eq!(plain, of(json!({"scopes": ["email"]})));
    let mut seen = HashSet::from([plain]);
    for changed in [
        json!({"allow": {"emails": ["bob@example.org"]}}),
        json!({"role_map": {"ops": "superuser"}}),
        json!({"view_map": {"ops": "all"}}),
        json!({"client_id": "another"}),
        json!({"max_age": 3_600}),
        json!({"github_api_url": "https://api.example.org"}),
        json!({"github_api_url": "https://other.example.org"}),
    ] {
        let of_changed = of(changed.clone());
        assert!(seen.insert(of_changed), "{changed}");
    }
}

#[test]
fn only_the_domain_that_google_names_counts_however_its_issuer_is_written() {
    let allow = Allow { domains: vec!["example.org".to_owned()], ..Allow::default() };
    let of = |hd: Value| {
        let claims = json!({"email": "ann@example.org", "email_verified": true, "hd": hd});
        Identity::new(claims.as_object().expect("an object").clone(), serde_json::Map::new())
    };
    for issuer in ["https://accounts.google.com", "https://accounts.google.com/"] {
        assert!(allow.check(issuer, &of(Value::Null)).is_err(), "{issuer}");
        assert!(allow.check(issuer, &of(json!("example.org"))).is_ok(), "{issuer}");
    }
    assert!(allow.check("https://login.example.org", &of(Value::Null)).is_ok());
}
