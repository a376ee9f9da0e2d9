//! Grants and clients over REST: who sees and ends which, and what ends with them.

use std::fs;
use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method};
use bytes::Bytes;
use json::Raw;
use runtime::telemetry::RequestId;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::super::fixture::{Answered, Gateway, request};
use super::*;
use auth::Role;

const CALLBACK: &str = "http://127.0.0.1:9/cb";
/// A secret of PKCE, and its SHA-256.
const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters";
const CHALLENGE: &str = "mg3QoZgnRJxQy_jYdfW7D8wJkoziCuM8Yhos7PwVvsI";

async fn gateway() -> Gateway {
    Gateway::of(vec![]).await.with_grants().await
}

/// Registers a client, and returns its id.
async fn client(gateway: &Gateway) -> String {
    let body = json!({"redirect_uris": [CALLBACK], "client_name": "App"});
    let body = Raw::parse(&Bytes::from(body.to_string())).expect("JSON");
    let server = gateway.options.grants.as_ref().expect("a server");
    let answer = server.register(&body, SystemTime::now()).await.expect("a client");
    answer["client_id"].as_str().expect("an id").to_owned()
}

/// Grants `scope` to `client` as `owner`. Returns the headers with its token.
async fn grant(gateway: &Gateway, owner: &Principal, client: &str, scope: &str) -> HeaderMap {
    let server = gateway.options.grants.as_ref().expect("a server");
    let query = format!(
        "response_type=code&client_id={client}&redirect_uri={CALLBACK}&code_challenge={CHALLENGE}\
         &code_challenge_method=S256&scope={scope}"
    );
    let consent = server.authorize(owner, &query, SystemTime::now()).await.expect("a consent");
    let location = server.approve(owner, &consent.request, SystemTime::now()).await.expect("a code");
    let code = location.split(['?', '&']).find_map(|pair| pair.strip_prefix("code=")).expect("a code");
    let form =
        format!("grant_type=authorization_code&client_id={client}&code={code}&code_verifier={VERIFIER}");
    let tokens = server.token(form.as_bytes(), RequestId::new(), SystemTime::now()).await.expect("tokens");
    let token = format!("Bearer {}", tokens.access_token.expose_secret());
    HeaderMap::from_iter([(AUTHORIZATION, token.parse().expect("a header"))])
}

async fn ask(gateway: &Gateway, method: Method, path: &str, principal: &Principal) -> Answered {
    let mut request = request(method, &format!("/api/v1/mcp{path}"), None, "");
    request.extensions_mut().insert(principal.clone());
    gateway.ask(request).await
}

/// The grants that `principal` sees.
async fn seen(gateway: &Gateway, query: &str, principal: &Principal) -> Vec<Value> {
    let answered = ask(gateway, Method::GET, &format!("/grants{query}"), principal).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    answered.json()["grants"].as_array().expect("a list").clone()
}

fn person(name: &str) -> Principal {
    Principal::new(name, Role::Caller)
}

fn operator() -> Principal {
    Principal::new("key:ops", Role::Superuser)
}

#[tokio::test]
async fn grant_is_shown_with_its_client_and_without_tokens() {
    let (gateway, ann) = (gateway().await, person("key:ann"));
    let client = client(&gateway).await;
    let headers = grant(&gateway, &ann, &client, "mcp:call+view:support").await;
    let shown = seen(&gateway, "", &ann).await;
    let [one] = &*shown else { panic!("{shown:?}") };
    for (member, expected) in [
        ("principal", json!("key:ann")),
        ("client", json!(client)),
        ("client_name", json!("App")),
        ("client_kind", json!("registered")),
        ("client_host", json!(null)),
        ("is_trusted", json!(false)),
        ("redirect_uri", json!(CALLBACK)),
        ("resource", json!("https://gw.example/mcp")),
        ("role", json!("caller")),
        ("view", json!("support")),
        ("scopes", json!(["mcp:read", "mcp:call", "view:support"])),
    ] {
        assert_eq!(one[member], expected, "{member}");
    }
    let token = headers[AUTHORIZATION].to_str().expect("text").trim_start_matches("Bearer ");
    assert!(!one.to_string().contains(token));
}

#[tokio::test]
async fn everybody_sees_and_ends_own_grants_and_a_superuser_all() {
    let gateway = gateway().await;
    let (ann, bob, client) = (person("key:ann"), person("key:bob"), client(&gateway).await);
    for owner in [&ann, &bob] {
        grant(&gateway, owner, &client, "mcp:call").await;
        grant(&gateway, owner, &client, "view:support").await;
    }
    let bound = ann.bound_to(Some("support".into()));
    let reader = Principal::new("key:ann", Role::Reader);
    let elsewhere = ann.bound_to(Some("billing".into()));
    for (principal, count) in [
        (&ann, 2),
        (&reader, 2),
        (&bound, 2),
        (&elsewhere, 1),
        (&operator(), 4),
        (&operator().of_grant(), 4),
        (&person("key:x"), 0),
    ] {
        assert_eq!(seen(&gateway, "", principal).await.len(), count, "{principal:?}");
    }
    assert_eq!(seen(&gateway, "?principal=key:bob", &operator()).await.len(), 2);
    assert_eq!(seen(&gateway, "?principal=key:ann", &ann).await.len(), 2);
    assert_eq!(seen(&gateway, &format!("?client={client}"), &operator()).await.len(), 4);
    assert!(seen(&gateway, "?client=other", &operator()).await.is_empty());
    let refused = ask(&gateway, Method::GET, "/grants?principal=key:bob", &ann).await;
    assert_eq!(refused.problem(), (403, "forbidden".into()));

    let of = |view: Value| move |grant: &&Value| grant["view"] == view;
    let grants = seen(&gateway, "", &ann).await;
    let [whole, in_view] = [Value::Null, json!("support")]
        .map(|view| grants.iter().find(of(view)).expect("a grant")["id"].as_str().expect("an id").to_owned());
    let path = |id: &str| format!("/grants/{id}");
    let missing = format!("{}0", &whole[..whole.len() - 1]);
    let missing = ask(&gateway, Method::DELETE, &path(&missing), &bob).await;
    assert_eq!(missing.problem(), (404, "not_found".into()));
    let (of_client, nobody) = (ann.of_grant(), Principal::anonymous_reader());
    for stranger in [&bob, &elsewhere, &of_client, &nobody] {
        let foreign = ask(&gateway, Method::DELETE, &path(&in_view), stranger).await;
        assert_eq!(foreign.problem(), missing.problem(), "{stranger:?}");
        assert_eq!(foreign.json()["hint"], missing.json()["hint"]);
    }
    for stranger in [&of_client, &nobody] {
        let all = format!("/grants?principal={}", stranger.id());
        for (method, path) in [(Method::GET, "/grants"), (Method::GET, &*all), (Method::DELETE, &*all)] {
            let refused = ask(&gateway, method, path, stranger).await;
            assert_eq!(refused.problem(), (403, "forbidden".into()), "{stranger:?} {path}");
        }
    }
    assert_eq!(seen(&gateway, "", &operator()).await.len(), 4, "none of them ended");
    for (id, principal) in [(&in_view, &reader), (&whole, &bound)] {
        let ended = ask(&gateway, Method::DELETE, &path(id), principal).await;
        assert_eq!((ended.status.as_u16(), &ended.json()["id"]), (200, &json!(id)));
        let again = ask(&gateway, Method::DELETE, &path(id), principal).await;
        assert_eq!(again.problem(), (404, "not_found".into()));
    }

    let refused = ask(&gateway, Method::DELETE, "/grants?principal=key:bob", &ann).await;
    assert_eq!(refused.problem(), (403, "forbidden".into()));
    let unnamed = ask(&gateway, Method::DELETE, "/grants", &operator()).await;
    assert_eq!(unnamed.problem(), (400, "invalid_request".into()), "never all of everybody");
    let ended = ask(&gateway, Method::DELETE, "/grants?principal=key:bob", &operator()).await;
    assert_eq!(ended.json(), json!({"principal": "key:bob", "grant_count": 2}));
    assert!(seen(&gateway, "", &operator()).await.is_empty());
}

#[tokio::test]
async fn pages_have_every_grant_and_client_once() {
    let (gateway, operator) = (gateway().await, operator());
    for owner in ["key:ann", "key:bob", "key:cid"] {
        let client = client(&gateway).await;
        grant(&gateway, &person(owner), &client, "mcp:read").await;
    }
    for (list, id) in [("grants", "id"), ("clients", "client")] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page =
                ask(&gateway, Method::GET, &format!("/{list}?limit=1{cursor}"), &operator).await.json();
            found.extend(page[list].as_array().expect("a list").iter().map(|one| one[id].to_string()));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert!(found.len() == 3 && found.is_sorted_by(|one, next| one < next), "{found:?}");
        for query in ["limit=0", "limit=1001", "limit=x", "cursor=no%20cursor", "other=1"] {
            let refused = ask(&gateway, Method::GET, &format!("/{list}?{query}"), &operator).await;
            assert_eq!(refused.problem(), (400, "invalid_request".into()), "{list} {query}");
        }
    }
}

#[tokio::test]
async fn list_of_clients_continues_after_the_last_one_was_removed() {
    let (gateway, operator) = (gateway().await, operator());
    let mut ids = [client(&gateway).await, client(&gateway).await, client(&gateway).await];
    ids.sort_unstable();
    let page = ask(&gateway, Method::GET, "/clients?limit=2", &operator).await.json();
    let removed = ask(&gateway, Method::DELETE, &format!("/clients?client={}", ids[1]), &operator).await;
    assert_eq!(removed.status, 200, "{}", removed.text());
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let next = ask(&gateway, Method::GET, &format!("/clients?cursor={cursor}"), &operator).await.json();
    assert_eq!((&next["clients"][0]["client"], &next["clients"][1]), (&json!(ids[2]), &Value::Null));
}

#[tokio::test]
async fn removed_client_loses_its_grants_and_its_registration() {
    let (gateway, operator) = (gateway().await, operator());
    let (one, other) = (client(&gateway).await, client(&gateway).await);
    for owner in ["key:ann", "key:bob"] {
        for client in [&one, &other] {
            grant(&gateway, &person(owner), client, "mcp:read").await;
        }
    }
    let remove = format!("/clients?client={one}");
    let removed = ask(&gateway, Method::DELETE, &remove, &operator).await;
    assert_eq!(removed.json(), json!({"client": one, "grant_count": 2}));
    assert_eq!(ask(&gateway, Method::DELETE, &remove, &operator).await.problem(), (404, "not_found".into()));
    let clients = ask(&gateway, Method::GET, "/clients", &operator).await.json()["clients"].clone();
    let [left] = &**clients.as_array().expect("a list") else { panic!("{clients}") };
    for (member, expected) in [
        ("client", json!(other)),
        ("client_kind", json!("registered")),
        ("grant_count", json!(2)),
        ("principal_count", json!(2)),
    ] {
        assert_eq!(left[member], expected, "{member}");
    }
    assert!(left["registered_at"].is_string() && left["used_at"].is_string(), "{left}");
    assert_eq!(seen(&gateway, "", &operator).await.len(), 2);
}

#[tokio::test]
async fn end_of_a_grant_ends_its_principals_within_a_second() {
    let (gateway, operator) = (gateway().await, operator());
    let requests = gateway.options.authenticator.clone().expect("an authenticator");
    let ends: [fn(&str) -> String; 3] = [
        |_| "/grants?principal=key:listed".to_owned(),
        |client| format!("/clients?client={client}"),
        |id| format!("/grants/{id}"),
    ];
    for (at, path) in ends.into_iter().enumerate() {
        let client = client(&gateway).await;
        let headers = grant(&gateway, &person("key:listed"), &client, "mcp:call").await;
        let sender = requests.check(&headers).await.expect("accepted");
        let id = seen(&gateway, "", &operator).await[0]["id"].as_str().expect("an id").to_owned();
        let path = path(if at == 2 { &id } else { &client });
        assert!(!sender.is_revoked());
        let ended = ask(&gateway, Method::DELETE, &path, &operator).await;
        assert_eq!(ended.status, 200, "{path}: {}", ended.text());
        tokio::time::timeout(Duration::from_secs(1), sender.revoked()).await.expect(&path);
        assert!(requests.check(&headers).await.is_err(), "{path}");
    }
}

#[tokio::test]
async fn gateway_without_the_server_or_its_store_says_so() {
    let without = Gateway::of(vec![]).await;
    let routes = [
        (Method::GET, "/grants"),
        (Method::DELETE, "/grants/x"),
        (Method::DELETE, "/grants?principal=key:ann"),
        (Method::GET, "/clients"),
        (Method::DELETE, "/clients?client=x"),
    ];
    for (method, path) in routes.clone() {
        let answered = ask(&without, method, path, &operator()).await;
        assert_eq!(answered.problem(), (404, "not_found".into()), "{path}");
        assert!(answered.json()["hint"].as_str().is_some_and(|hint| hint.contains("authorization_server")));
    }
    let gateway = gateway().await;
    let client = client(&gateway).await;
    grant(&gateway, &person("key:ann"), &client, "mcp:read").await;
    let id = seen(&gateway, "", &operator()).await[0]["id"].as_str().expect("an id").to_owned();
    // A file in the place of a folder.
    let folder = gateway.folder.path().join("grants");
    fs::remove_dir_all(&folder).expect("removed");
    fs::write(&folder, "").expect("a file");
    for (method, path) in routes {
        let path = path.replace("/grants/x", &format!("/grants/{id}"));
        let answered = ask(&gateway, method, &path, &operator()).await;
        assert_eq!(answered.problem(), (503, "store_unavailable".into()), "{path}");
        assert!(!answered.text().contains(&*folder.to_string_lossy()), "{}", answered.text());
    }
    let metrics = gateway.get("/metrics?name[]=switchyard_authorization_store_failures_total").await;
    let count = metrics.text().lines().find_map(|line| line.strip_prefix("switchyard_authorization_store_"));
    assert!(count.is_some_and(|count| count != "failures_total 0"), "{}", metrics.text());
}

#[tokio::test]
async fn grants_and_requests_are_in_the_metrics() {
    let gateway = gateway().await;
    let client = client(&gateway).await;
    grant(&gateway, &person("key:ann"), &client, "mcp:read").await;
    let metrics = gateway.get("/metrics").await;
    for line in [
        "switchyard_authorization_grants 1",
        "switchyard_authorization_clients 1",
        "switchyard_authorization_requests_total{endpoint=\"token\",outcome=\"issued\"} 1",
        "switchyard_authorization_requests_total{endpoint=\"token\",outcome=\"invalid_grant\"} 0",
        "switchyard_authorization_reuses_total 0",
        "switchyard_authorization_store_failures_total 0",
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "{line} is not in\n{}", metrics.text());
    }
    let without = Gateway::of(vec![]).await.get("/metrics").await;
    assert!(!without.text().contains("switchyard_authorization_"));
}
