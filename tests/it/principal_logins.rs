//! Servers where each principal has a login of its own: REST requests, and sessions while an operator reconnects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::messages::texts_of;
use crate::oauth::{ALICE, BOB, CAROL, OPERATOR, World, client_at, keys, log_in_as, world};
use crate::support::answer::Answer;
use crate::support::client::Session;
use crate::support::scripted::Scripted;
use crate::support::stateful_http::StatefulHttp;
use crate::support::{Gateway, Registry, api_keys, eventually};

const API: &str = "/api/v1/mcp";
/// The vault in the folder of the gateway.
const VAULT: &str = ".local/state/switchyard/vault.json";

/// A server that offers something of each kind.
fn server(era: Scripted) -> Scripted {
    era.offers("prompts", r#"[{"name":"p"}]"#)
        .offers("resources", r#"[{"uri":"file:///r","name":"r"}]"#)
        .offers("resourceTemplates", r#"[{"uriTemplate":"file:///t/{x}","name":"t"}]"#)
        .answers("prompts/get", vec![r#"{"messages":[]}"#.to_owned(); 8])
        .answers("resources/read", vec![r#"{"contents":[]}"#.to_owned(); 8])
}

async fn principals(era: Scripted) -> World {
    world(server(era), &["ada", "grace"], (", per: principal", &keys())).await
}

async fn get(world: &World, route: &str, key: &str) -> Answer {
    client_at(world, &format!("{API}{route}"), key).bare(http::Method::GET, &[]).await
}

async fn post(world: &World, route: &str, key: &str, body: &Value) -> Answer {
    client_at(world, &format!("{API}{route}"), key).post(&body.to_string(), &[("accept", "*/*")]).await
}

/// All ways in which REST calls the tool: at its server, by its qualified and its bare name, each with and without events.
async fn calls(world: &World, key: &str) -> Vec<(String, Answer)> {
    let mut answers = Vec::new();
    for body in [
        json!({"server": "notes", "tool": "a", "arguments": {}}),
        json!({"tool": "notes__a", "arguments": {}}),
        json!({"tool": "a", "arguments": {}}),
        json!({"tool": "a", "arguments": {}, "timeout": 20}),
    ] {
        for accept in ["application/json", "text/event-stream"] {
            let rest = client_at(world, &format!("{API}/call"), key);
            let answer = rest.post(&body.to_string(), &[("accept", accept)]).await;
            answers.push((format!("{body} {accept}"), answer));
        }
    }
    answers
}

/// The names in a list of REST.
fn names(answer: &Answer) -> Vec<String> {
    let list = answer.json();
    let items = list["tools"].as_array().or(list["items"].as_array()).unwrap_or_else(|| panic!("{answer:?}"));
    items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn rest_requests_use_the_login_of_their_principal_and_of_no_other() {
    for era in [Scripted::modern(), Scripted::legacy()] {
        let world = principals(era).await;
        for (way, refused) in calls(&world, ALICE).await {
            assert_ne!(refused.json_or_event()["success"], true, "{way}: nobody logged in: {refused:?}");
        }
        for key in [ALICE, BOB] {
            log_in_as(&world, key).await;
        }
        for (account, key) in [("ada", ALICE), ("grace", BOB)] {
            for (way, answer) in calls(&world, key).await {
                assert_eq!(answer.json_or_event()["success"], true, "{way}: {answer:?}");
                assert_eq!(answer.json_or_event()["tool"], "a", "{way}: {answer:?}");
                let used = world.server.seen_calling("tools/call").pop().expect("a call");
                assert_eq!(used.header("authorization"), Some(&*format!("Bearer canary-{account}")), "{way}");
            }
            for (route, name) in [
                ("/tools", "a"),
                ("/servers/notes/tools", "a"),
                ("/prompts", "p"),
                ("/resources", "file:///r"),
                ("/resources/templates", "file:///t/{x}"),
            ] {
                assert_eq!(names(&get(&world, route, key).await), [name], "{route}");
            }
            assert_eq!(get(&world, "/tools/a", key).await.json()["name"], "a");
            let read = post(&world, "/resources/read", key, &json!({"uri": "file:///r"})).await;
            assert_eq!((read.status, &read.json()["server"]), (200, &json!("notes")), "{read:?}");
            let prompt = post(&world, "/prompts/p", key, &json!({})).await;
            assert_eq!((prompt.status, &prompt.json()["server"]), (200, &json!("notes")), "{prompt:?}");
        }
        let before = world.server.seen_calling("tools/call").len();
        for (way, refused) in calls(&world, CAROL).await {
            assert_ne!(refused.json_or_event()["success"], true, "{way}: {refused:?}");
        }
        assert_eq!(world.server.seen_calling("tools/call").len(), before, "nothing is sent for others");
        assert_eq!(names(&get(&world, "/tools", CAROL).await), ["login_to_notes"]);
        assert_eq!(get(&world, "/tools/a", CAROL).await.status, 404);
    }
}

#[tokio::test]
async fn later_key_of_the_same_name_does_not_get_the_logins_of_a_revoked_one() {
    let settings = (", per: principal", "server: {auth_mode: api_key, keys_file: keys.json}");
    let world = world(server(Scripted::modern()), &["ada", "grace"], settings).await;
    let command = |arguments: &[&str]| {
        let (code, out, err) = texts_of(&world.gateway.gateway().output(arguments));
        assert_eq!(code, Some(0), "{err}");
        out.trim().to_owned()
    };
    let vault = || std::fs::read_to_string(world.gateway.folder().join(VAULT)).expect("a vault");
    let entries = || {
        serde_json::from_str::<Value>(&vault()).expect("JSON")["entries"]
            .as_object()
            .map(serde_json::Map::len)
    };
    let operator = command(&["key", "add", "op", "--role", "superuser"]);
    let accepted = async |key: &str| {
        eventually("the key is accepted", async || {
            (get(&world, "/tools", key).await.status == 200).then_some(())
        })
        .await;
    };
    accepted(&operator).await;
    for is_rest in [false, true] {
        let first = command(&["key", "add", "carol", "--role", "caller"]);
        accepted(&first).await;
        log_in_as(&world, &first).await;
        for (way, answer) in calls(&world, &first).await {
            assert_eq!(answer.json_or_event()["success"], true, "{way}: {answer:?}");
        }
        let before = entries();
        if is_rest {
            let http = reqwest::Client::builder().no_proxy().build().expect("a client");
            let revoked = http.delete(world.gateway.url(&format!("{API}/keys/carol")));
            let revoked = revoked.header("x-api-key", &operator).send().await.expect("an answer");
            assert_eq!(revoked.status(), 200);
            assert_eq!(
                world.login_service.seen("/revoke").len(),
                2,
                "the refresh token and the access token"
            );
        } else {
            command(&["key", "revoke", "carol"]);
        }
        assert_eq!(entries().map(|count| count + 1), before, "one token is gone");
        let second = command(&["key", "add", "carol", "--role", "caller"]);
        accepted(&second).await;
        let sent = world.server.seen_calling("tools/call").len();
        for (way, refused) in calls(&world, &second).await {
            assert_ne!(refused.json_or_event()["success"], true, "{way}: {refused:?}");
        }
        assert_eq!(world.server.seen_calling("tools/call").len(), sent, "nothing is sent");
        assert_eq!(names(&get(&world, "/tools", &second).await), ["login_to_notes"]);
        command(&["key", "revoke", "carol"]);
    }
}

#[tokio::test]
async fn the_login_of_a_key_that_is_gone_is_found_and_removed() {
    let settings = |keys: &str| format!("server: {{{keys}}}");
    let two = settings(&api_keys(&[(ALICE, "role: caller"), (OPERATOR, "role: superuser")]));
    let one = settings(&api_keys(&[(OPERATOR, "role: superuser")]));
    let world = world(server(Scripted::modern()), &["ada", "grace"], (", per: principal", &two)).await;
    log_in_as(&world, ALICE).await;
    let yaml = std::fs::read_to_string(world.gateway.folder().join("mcp_servers.yaml")).expect("the file");
    let doctor = || texts_of(&world.gateway.gateway().output(&["doctor", "--offline"])).1;
    let is_told = |text: &str| text.contains("the vault has 1 login and no secret of `key:alice`");
    assert!(!is_told(&doctor()), "{}", doctor());
    let reloaded = async |yaml: &str| {
        world.gateway.rewrite(yaml);
        let reloaded = post(&world, "/reload", OPERATOR, &json!({})).await;
        assert_eq!(reloaded.status, 200, "{reloaded:?}");
    };
    let calls_alone = async || {
        post(&world, "/call", ALICE, &json!({"server": "notes", "tool": "a", "arguments": {}})).await
    };

    // A mistake that is corrected costs no login.
    reloaded(&yaml.replace(&two, &one)).await;
    assert_eq!(calls_alone().await.status, 401);
    let told = doctor();
    assert!(is_told(&told) && told.contains("`switchyard secret remove --for key:alice`"), "{told}");
    reloaded(&yaml).await;
    assert_eq!(calls_alone().await.json_or_event()["success"], true, "{:?}", calls_alone().await);

    reloaded(&yaml.replace(&two, &one)).await;
    let (code, out, err) =
        texts_of(&world.gateway.gateway().output(&["secret", "remove", "--for", "key:alice"]));
    assert!(code == Some(0) && out.contains("1 login and no secret of key:alice"), "{out}{err}");
    assert!(!is_told(&doctor()), "{}", doctor());
    reloaded(&yaml).await;
    assert_ne!(calls_alone().await.json_or_event()["success"], true, "{:?}", calls_alone().await);
}

#[tokio::test]
async fn the_dashboard_of_a_principal_calls_with_its_login() {
    let world = principals(Scripted::modern()).await;
    let browser = log_in_as(&world, ALICE).await;
    let session = browser.get(&world.gateway.url("/ui/session")).await;
    let session: Value = serde_json::from_str(&session.text).expect("JSON");
    let origin = world.gateway.url("").trim_end_matches('/').to_owned();
    for accept in ["application/json", "text/event-stream"] {
        let request = reqwest::Client::builder().no_proxy().build().expect("a client");
        let request = request.post(world.gateway.url(&format!("{API}/call")));
        let request = request.header("cookie", browser.cookies()).header("origin", &origin);
        let request = request.header("x-switchyard-csrf", session["csrf"].as_str().expect("a token"));
        let request = request.header("content-type", "application/json").header("accept", accept);
        let body = json!({"server": "notes", "tool": "a", "arguments": {}}).to_string();
        let answer = Answer::read(request.body(body).send().await.expect("an answer")).await;
        assert_eq!(answer.json_or_event()["success"], true, "{answer:?}");
        let used = world.server.seen_calling("tools/call").pop().expect("a call");
        assert_eq!(used.header("authorization"), Some("Bearer canary-ada"));
    }
}

/// Lists and calls in `session` until `is_over`. Returns what was missing.
async fn works(session: &Session, tool: &str, is_over: &AtomicBool) -> Vec<String> {
    let mut missing = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let listed = session.request("tools/list", json!({})).await;
        if !listed.tool_names().iter().any(|name| name == tool) {
            missing.push(format!("{listed:?}"));
        }
        // It may fail, because its connection is closed.
        let called = session.call(tool, json!({})).await.response_text();
        if called.contains("tool_not_found") || called.contains("no tool") {
            missing.push(called);
        }
    }
    missing
}

#[tokio::test]
async fn sessions_of_two_principals_keep_their_tools_while_an_operator_reconnects() {
    for era in [Scripted::modern(), Scripted::legacy()] {
        let world = principals(era).await;
        for key in [ALICE, BOB] {
            log_in_as(&world, key).await;
        }
        let mut sessions = Vec::new();
        for key in [ALICE, BOB, ALICE, BOB, ALICE, BOB] {
            let session = client_at(&world, "/mcp", key).legacy().await;
            assert_eq!(session.request("tools/list", json!({})).await.tool_names(), ["a"]);
            sessions.push(session);
        }
        let is_over = AtomicBool::new(false);
        let reconnecting = async {
            for pause in 0..40 {
                post(&world, "/servers/notes/reconnect", OPERATOR, &json!({})).await;
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            is_over.store(true, Ordering::Relaxed);
        };
        let working = join_all(sessions.iter().map(|session| works(session, "a", &is_over)));
        let ((), missing) = tokio::join!(reconnecting, working);
        assert_eq!(missing.concat(), Vec::<String>::new());
        for session in &sessions {
            assert_eq!(session.request("tools/list", json!({})).await.tool_names(), ["a"], "at the end");
        }
    }
}

#[tokio::test]
async fn sessions_with_own_connections_keep_their_own_tools_while_an_operator_reconnects() {
    let server = StatefulHttp::start();
    let registry = Registry::new().http("one", &server.url()).with("sharing: per_session");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["add"]).await;
    let sessions = [gateway.mcp().legacy().await, gateway.mcp().legacy().await];
    let is_over = AtomicBool::new(false);
    let reconnecting = async {
        for pause in 0..20 {
            gateway.post("/servers/one/reconnect", "{}").await;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let working = join_all(sessions.iter().map(|session| works(session, "folders", &is_over)));
    let ((), missing) = tokio::join!(reconnecting, working);
    assert_eq!(missing.concat(), Vec::<String>::new());
}
