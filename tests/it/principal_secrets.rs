//! Secrets of each caller in headers (`${principal:NAME}`): who sets them, which requests have them, and the error for a
//! caller without one.

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use testkit::scripted::Step;

use crate::messages::texts_of;
use crate::revoked::bearer;
use crate::support::scripted::{Act, ReceivedRequest, Scripted, Server, Tool};
use crate::support::{Answer, Client, Gateway, Registry, Running, api_keys, eventually, odd};

const OPERATOR: &str = "swy_op_0123456789abcdef0123456789abcdef0123456789abcdef";
const ALICE: &str = "swy_alice_abcdef0123456789abcdef0123456789abcdef0123456789";
const BOB: &str = "swy_bob_abcdef0123456789abcdef0123456789abcdef0123456789";
const READER: &str = "swy_reader_abcdef0123456789abcdef0123456789abcdef0123456789";

/// Part of every value.
const CANARY: &str = "canary-5d2e";
const HEADER: &str = "headers: {X-Api-Key: \"${principal:CRM_KEY}\"}";

fn value(who: &str) -> String {
    format!("{CANARY}-{who}")
}

fn keys() -> String {
    let keys = [
        (OPERATOR, "role: superuser"),
        (ALICE, "role: caller"),
        (BOB, "role: caller"),
        (READER, "role: reader"),
    ];
    format!("server: {{{}}}", api_keys(&keys))
}

fn at(server: &Server, is_sse: bool) -> Registry {
    let registry = Registry::new();
    let registry =
        if is_sse { registry.sse("crm", &server.url()) } else { registry.http("crm", &server.url()) };
    registry.with(HEADER)
}

async fn started(server: &Server) -> Running {
    Gateway::of(&at(server, false).setting(&keys())).start().await
}

fn client(gateway: &Running, key: &str) -> Client {
    gateway.mcp().with_header("authorization", &bearer(key))
}

fn rest(gateway: &Running, key: &str, route: &str) -> Client {
    client(gateway, key).to(&gateway.url(&format!("/api/v1/mcp{route}")))
}

async fn get(gateway: &Running, key: &str, route: &str) -> Answer {
    rest(gateway, key, route).bare(http::Method::GET, &[]).await
}

/// `PUT` with a body, or `DELETE` without one.
async fn change(gateway: &Running, key: &str, route: &str, body: Option<&Value>) -> Answer {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = gateway.url(&format!("/api/v1/mcp/secrets/{route}"));
    let request = if body.is_some() { http.put(url) } else { http.delete(url) };
    let request = request.header("authorization", bearer(key));
    let request = match body {
        Some(body) => request.header("content-type", "application/json").body(body.to_string()),
        None => request,
    };
    Answer::read(request.send().await.expect("an answer")).await
}

async fn set(gateway: &Running, key: &str, text: &str) {
    let answer = change(gateway, key, "CRM_KEY", Some(&json!({"value": text}))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!answer.body.contains(text), "{answer:?}");
}

/// Sets a secret with the command.
fn set_here(gateway: &Gateway, principal: &str, text: &str) {
    let output =
        gateway.output_with_input(&["secret", "set", "CRM_KEY", "--for", principal], text.as_bytes());
    let (code, out, err) = texts_of(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!out.contains(text) && !err.contains(text), "{out}{err}");
}

async fn call(gateway: &Running, key: &str, arguments: &Value) -> Answer {
    let body = json!({"server": "crm", "tool": "a", "arguments": arguments});
    rest(gateway, key, "/call").post(&body.to_string(), &[]).await
}

/// The key that the last call carried.
fn last_key(server: &Server) -> Option<String> {
    server.seen_calling("tools/call").pop()?.header("x-api-key").map(str::to_owned)
}

// RULES S17
#[tokio::test]
async fn interleaved_calls_of_two_principals_carry_their_own_secret_and_never_the_other() {
    const CALLS: usize = 500;
    for (name, server) in
        [("modern", Scripted::modern()), ("legacy", Scripted::legacy()), ("sse", Scripted::sse())]
    {
        let server = server.tool(Tool::named("a")).start();
        let gateway = Gateway::of(&at(&server, name == "sse").setting(&keys()));
        set_here(&gateway, "key:alice", &value("alice"));
        let gateway = gateway.start().await;
        set(&gateway, BOB, &value("bob")).await;

        let people = [("alice", ALICE), ("bob", BOB)];
        let sessions = [client(&gateway, ALICE).legacy().await, client(&gateway, BOB).legacy().await];
        for (at, (who, key)) in people.into_iter().enumerate() {
            assert_eq!(call(&gateway, key, &json!({"who": who, "n": "first"})).await.status, 200);
            assert_eq!(
                client(&gateway, key).call("a", json!({"who": who})).await.text(),
                format!(r#"{{"who":"{who}"}}"#)
            );
            assert_eq!(
                sessions[at].call("a", json!({"who": who})).await.text(),
                format!(r#"{{"who":"{who}"}}"#)
            );
        }
        let one = async |number: usize| {
            let ((who, key), session) = (people[number % 2], &sessions[number % 2]);
            let arguments = json!({"who": who, "n": number});
            match number / 2 % 4 {
                0 => client(&gateway, key).call("a", arguments.clone()).await.text(),
                1 => session.call("a", arguments.clone()).await.text(),
                2 => call(&gateway, key, &arguments).await.json()["success"].to_string(),
                _ => {
                    let body = json!({"server": "crm", "tool": "a", "arguments": arguments});
                    let streamed = rest(&gateway, key, "/call");
                    let answer = streamed.post(&body.to_string(), &[("accept", "text/event-stream")]).await;
                    answer.json_or_event()["success"].to_string()
                }
            }
        };
        let answers: Vec<_> = stream::iter(0..CALLS).map(one).buffer_unordered(32).collect().await;
        assert!(answers.iter().all(|text| text.contains("who") || text == "true"), "{answers:?}");
        let calls = server.seen_calling("tools/call");
        assert_eq!(calls.len(), CALLS + 6);
        let crossed = calls.iter().filter(|seen| {
            let params: Value = serde_json::from_str(&seen.params()).expect("JSON");
            let who = params["arguments"]["who"].as_str().expect("a name");
            seen.header("x-api-key") != Some(&*value(who))
        });
        assert_eq!(crossed.count(), 0, "{name}");
        for seen in server.seen() {
            let key = seen
                .header("x-api-key")
                .unwrap_or_else(|| panic!("{name}: a request without a key: {seen:?}"));
            assert!(key == value("alice") || key == value("bob"), "{key}");
        }
    }
}

#[tokio::test]
async fn caller_without_the_secret_is_told_which_one_to_set_and_nothing_is_sent() {
    for server in [Scripted::modern(), Scripted::legacy()] {
        let server = server.tool(Tool::named("a")).start();
        let gateway = started(&server).await;
        eventually("the server waits for secrets", async || {
            let crm = get(&gateway, OPERATOR, "/servers/crm").await.json();
            let error = crm["last_error"].as_str().is_some_and(|error| error.contains("CRM_KEY"));
            (crm["state"] == "login_required" && error).then_some(())
        })
        .await;
        let refused = call(&gateway, ALICE, &json!({})).await;
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (503, &json!("secret_required")),
            "{refused:?}"
        );
        let over_mcp = client(&gateway, ALICE).call("crm__a", json!({})).await;
        assert!(
            over_mcp.body.contains("secret_required") && over_mcp.body.contains("CRM_KEY"),
            "{over_mcp:?}"
        );
        let session = client(&gateway, ALICE).legacy().await;
        let listed = session.request("tools/list", json!({})).await.tool_names();
        assert!(listed.is_empty(), "{listed:?}");
        assert!(server.seen().is_empty(), "nothing is sent: {:?}", server.seen());

        set(&gateway, BOB, &value("bob")).await;
        assert_eq!(call(&gateway, BOB, &json!({})).await.status, 200);
        for refused in [call(&gateway, ALICE, &json!({})).await, call(&gateway, OPERATOR, &json!({})).await] {
            assert_eq!(refused.json()["code"], "secret_required", "{refused:?}");
        }
        assert!(client(&gateway, ALICE).modern("tools/list", json!({})).await.tool_names().is_empty());
        assert_eq!(client(&gateway, BOB).modern("tools/list", json!({})).await.tool_names(), ["a"]);
        assert_eq!(server.seen_calling("tools/call").len(), 1);
        let of_bob = |seen: &ReceivedRequest| seen.header("x-api-key") == Some(&*value("bob"));
        assert!(server.seen().iter().all(of_bob), "{:?}", server.seen());

        // From then on its session has the tools, and the error of a removed secret says how to set it.
        set(&gateway, ALICE, &value("alice")).await;
        assert_eq!(session.call("a", json!({"n": 1})).await.text(), r#"{"n":1}"#);
        assert_eq!(last_key(&server), Some(value("alice")));
        assert_eq!(change(&gateway, ALICE, "CRM_KEY", None).await.status, 200);
        let removed = call(&gateway, ALICE, &json!({})).await.json();
        assert_eq!(removed["code"], "secret_required", "{removed}");
    }
}

#[tokio::test]
async fn changed_secret_is_used_by_the_next_call_whoever_changed_it() {
    for (has_sessions, server) in
        [(false, Scripted::modern()), (true, Scripted::legacy()), (true, Scripted::sse())]
    {
        let server = server.tool(Tool::named("a")).start();
        let is_sse = server.url().ends_with("/sse");
        let gateway = Gateway::of(&at(&server, is_sse).setting(&keys())).start().await;
        set(&gateway, ALICE, &value("1")).await;
        set(&gateway, BOB, &value("bob")).await;
        let session = client(&gateway, ALICE).legacy().await;
        let others = client(&gateway, BOB).legacy().await;
        for (session, key) in [(&others, "bob"), (&session, "1")] {
            assert_eq!(session.call("a", json!({})).await.text(), "{}");
            assert_eq!(last_key(&server), Some(value(key)));
        }
        let ended = server.seen_calling("initialize").len();

        set(&gateway, ALICE, &value("2")).await;
        assert_eq!(session.call("a", json!({})).await.text(), "{}");
        assert_eq!(last_key(&server), Some(value("2")), "REST");
        set_here(gateway.gateway(), "key:alice", &value("3"));
        assert_eq!(session.call("a", json!({})).await.text(), "{}");
        assert_eq!(last_key(&server), Some(value("3")), "another process");
        let by_operator = json!({"value": value("4")});
        let answer = change(&gateway, OPERATOR, "CRM_KEY?principal=key%3Aalice", Some(&by_operator)).await;
        assert_eq!((answer.status, &answer.json()["principal"]), (200, &json!("key:alice")), "{answer:?}");
        assert_eq!(call(&gateway, ALICE, &json!({})).await.status, 200);
        assert_eq!(last_key(&server), Some(value("4")), "an operator");
        let began = server.seen_calling("initialize").len();
        assert!(!has_sessions || began >= ended + 2, "a session does not outlive its secret: {began}");
        assert_eq!(others.call("a", json!({})).await.text(), "{}");
        assert_eq!(last_key(&server), Some(value("bob")));
        assert_eq!(server.seen_calling("initialize").len(), began, "others keep their connections");
    }
}

#[tokio::test]
async fn callers_see_and_change_their_own_secrets_and_operators_those_of_all() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = started(&server).await;
    let own = get(&gateway, ALICE, "/secrets").await.json();
    let unset = json!([{"name": "CRM_KEY", "servers": ["crm"], "is_set": false}]);
    assert_eq!((&own["principal"], &own["secrets"]), (&json!("key:alice"), &unset), "{own}");
    set(&gateway, ALICE, &value("alice")).await;
    let own = get(&gateway, ALICE, "/secrets").await;
    assert!(own.json()["secrets"][0]["is_set"] == true && !own.body.contains(CANARY), "{own:?}");
    assert_eq!(get(&gateway, BOB, "/secrets").await.json()["secrets"], unset, "bob has none");

    let body = json!({"value": value("x")});
    for (key, route, status, code) in [
        (ALICE, "OTHER", 404, "not_found"),
        (ALICE, "CRM_KEY?principal=key%3Abob", 403, "forbidden"),
        (READER, "CRM_KEY", 403, "forbidden"),
        (OPERATOR, "1X?principal=key%3Abob", 400, "invalid_request"),
        (OPERATOR, "CRM_KEY?principal=anonymous", 400, "invalid_request"),
        (OPERATOR, "CRM_KEY?who=x", 400, "invalid_request"),
    ] {
        let answer = change(&gateway, key, route, Some(&body)).await;
        assert_eq!((answer.status, &answer.json()["code"]), (status, &json!(code)), "{route}: {answer:?}");
    }
    assert_eq!(get(&gateway, ALICE, "/secrets?principal=key%3Abob").await.status, 403);
    assert_eq!(get(&gateway, READER, "/secrets").await.status, 403);
    for wrong in [
        json!({"value": ""}),
        json!({"value": format!("{CANARY}\nX-Injected: 1")}),
        json!({"value": format!("{CANARY}-ä")}),
        json!({"value": CANARY.repeat(1_000)}),
        json!({"value": [CANARY]}),
        json!({}),
        json!({"value": CANARY, "also": CANARY}),
    ] {
        let answer = change(&gateway, ALICE, "CRM_KEY", Some(&wrong)).await;
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("invalid_request")), "{answer:?}");
        assert!(!answer.body.contains(CANARY), "the value is not repeated: {answer:?}");
    }
    assert_eq!(call(&gateway, ALICE, &json!({})).await.status, 200, "a refused value changes nothing");
    assert_eq!(last_key(&server), Some(value("alice")));

    let of_bob = change(&gateway, OPERATOR, "CRM_KEY?principal=key%3Abob", Some(&body)).await;
    assert_eq!(of_bob.status, 200, "{of_bob:?}");
    assert_eq!(get(&gateway, BOB, "/secrets").await.json()["secrets"][0]["is_set"], true);
    assert_eq!(
        get(&gateway, OPERATOR, "/secrets").await.json()["secrets"],
        unset,
        "not those of the operator"
    );
    assert_eq!(change(&gateway, BOB, "CRM_KEY", None).await.status, 200);
    assert_eq!(change(&gateway, BOB, "CRM_KEY", None).await.status, 404);
    gateway
        .logs("the change is in the audit log", |line| {
            line["action"] == "set_secret"
                && line["principal"] == "key:op"
                && line["secret"] == "CRM_KEY"
                && line["of"] == "key:bob"
        })
        .await;
}

#[tokio::test]
async fn callers_change_their_own_secrets_a_few_times_in_a_minute_and_operators_any() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = started(&server).await;
    let body = json!({"value": value("x")});
    let changed = async |key: &str, route: &str, body: Option<&Value>| {
        let answer = change(&gateway, key, route, body).await;
        (answer.status != 429).then_some(answer.status).ok_or(answer)
    };
    let mut admitted = 0;
    let refused = loop {
        assert!(admitted < 100, "there is no limit");
        match changed(ALICE, "CRM_KEY", Some(&body).filter(|_| admitted % 2 == 0)).await {
            Ok(status) => assert_eq!(status, 200),
            Err(refused) => break refused,
        }
        admitted += 1;
    };
    assert!(admitted >= 10, "{admitted}");
    assert_eq!(refused.json()["code"], "limit_reached", "{refused:?}");
    let wait: u32 = refused.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a time");
    assert!((1..=6).contains(&wait), "{wait} s");
    assert_eq!(changed(BOB, "CRM_KEY", Some(&body)).await.ok(), Some(200), "others are not shut out");
    for _ in 0..20 {
        let of_alice = changed(OPERATOR, "CRM_KEY?principal=key%3Aalice", Some(&body)).await;
        assert_eq!(of_alice.ok(), Some(200), "operators have no limit");
    }
    gateway
        .logs("the refusal is in the audit log", |line| {
            line["action"] == "set_secret" && line["outcome"] == "limit_reached" && line["of"] == "key:alice"
                || line["action"] == "remove_secret" && line["outcome"] == "limit_reached"
        })
        .await;
}

#[tokio::test]
async fn audit_line_of_a_refused_change_says_whose_secret_it_is() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = started(&server).await;
    let (body, bad) = (json!({"value": value("x")}), json!({"value": ""}));
    // The message of the line, its principal, the secret, its owner, and the outcome.
    for (request, body, line) in [
        ((ALICE, "OTHER"), Some(&body), ("operated", "alice", "OTHER", "key:alice", "not_found")),
        ((ALICE, "CRM_KEY"), Some(&bad), ("operated", "alice", "CRM_KEY", "key:alice", "invalid_request")),
        ((ALICE, "CRM_KEY"), None, ("operated", "alice", "CRM_KEY", "key:alice", "not_found")),
        ((ALICE, "A?principal=key%3Abob"), Some(&body), ("operated", "alice", "A", "key:bob", "forbidden")),
        ((ALICE, "B?principal=key%3Abob"), Some(&body), ("refused", "alice", "B", "key:bob", "forbidden")),
        ((READER, "C?principal=key%3Abob"), Some(&body), ("refused", "reader", "C", "key:bob", "forbidden")),
        ((READER, "D"), None, ("refused", "reader", "D", "key:reader", "forbidden")),
        (
            (OPERATOR, "E?principal=key%3Abob"),
            Some(&bad),
            ("operated", "op", "E", "key:bob", "invalid_request"),
        ),
        (
            (OPERATOR, "F?principal=key%3Abob&x=1"),
            None,
            ("operated", "op", "F", "key:bob", "invalid_request"),
        ),
        (
            (OPERATOR, "1X?principal=key%3Abob"),
            Some(&body),
            ("operated", "op", "1X", "key:bob", "invalid_request"),
        ),
    ] {
        let answer = change(&gateway, request.0, request.1, body).await;
        assert!(answer.status >= 400, "{request:?}: {answer:?}");
        let (message, who, secret, of, outcome) = line;
        gateway
            .logs(&format!("{line:?}"), |line| {
                line["message"] == message
                    && line["principal"] == format!("key:{who}")
                    && (&line["secret"], &line["of"]) == (&json!(secret), &json!(of))
                    && line["outcome"] == outcome
            })
            .await;
    }
}

#[tokio::test]
async fn secrets_are_listed_and_removed_by_principal_on_the_command_line() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = started(&server).await;
    let secret = |arguments: &[&str]| texts_of(&gateway.gateway().output(&[&["secret"], arguments].concat()));
    for who in ["alice", "bob"] {
        set_here(gateway.gateway(), &format!("key:{who}"), &value(who));
    }
    let (_, all, _) = secret(&["list"]);
    assert!(all.contains("key:alice") && all.contains("key:bob") && all.contains("FOR"), "{all}");
    let (_, own, _) = secret(&["list", "--for", "key:alice"]);
    assert!(own.contains("key:alice") && !own.contains("key:bob"), "{own}");
    assert_eq!(call(&gateway, ALICE, &json!({})).await.status, 200);
    assert_eq!(secret(&["remove", "CRM_KEY", "--for", "key:alice"]).0, Some(0));
    assert_eq!(call(&gateway, ALICE, &json!({})).await.json()["code"], "secret_required");
    assert_eq!(secret(&["remove", "--for", "key:bob"]).0, Some(0));
    assert_eq!(call(&gateway, BOB, &json!({})).await.json()["code"], "secret_required");
    for wrong in
        [&["remove"][..], &["set", "CRM_KEY", "--for", "anonymous"], &["set", "CRM_KEY", "--for", ""]]
    {
        assert_eq!(secret(wrong).0, Some(2), "{wrong:?}");
    }
    let (code, _, err) = secret(&["remove", "CRM_KEY", "--for", "key:bob"]);
    assert!(code == Some(1) && err.contains("`CRM_KEY of key:bob`"), "{err}");
    let output =
        gateway.gateway().output_with_input(&["secret", "set", "CRM_KEY", "--for", "key:bob"], b"a\nb");
    let (code, _, err) = texts_of(&output);
    assert!(code == Some(1) && err.contains("one line of ASCII"), "{err}");
}

#[tokio::test]
async fn later_key_of_the_same_name_does_not_get_the_secrets_of_a_revoked_one() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let settings = "server: {auth_mode: api_key, keys_file: keys.json}";
    let gateway = Gateway::of(&at(&server, false).setting(settings)).start().await;
    let key = |arguments: &[&str]| {
        let (code, out, err) = texts_of(&gateway.gateway().output(&[&["key"], arguments].concat()));
        assert_eq!(code, Some(0), "{err}");
        out.trim().to_owned()
    };
    let operator = key(&["add", "op", "--role", "superuser"]);
    for is_rest in [false, true] {
        let first = key(&["add", "carol", "--role", "caller"]);
        eventually("the key is accepted", async || {
            (get(&gateway, &first, "/secrets").await.status == 200).then_some(())
        })
        .await;
        set(&gateway, &first, &value("first")).await;
        assert_eq!(call(&gateway, &first, &json!({})).await.status, 200);
        if is_rest {
            let revoked = rest(&gateway, &operator, "/keys/carol").bare(http::Method::DELETE, &[]).await;
            assert_eq!(revoked.status, 200, "{revoked:?}");
        } else {
            key(&["revoke", "carol"]);
        }
        let second = key(&["add", "carol", "--role", "caller"]);
        eventually("the new key is accepted", async || {
            let refused = call(&gateway, &second, &json!({})).await;
            (refused.status != 401).then_some(refused)
        })
        .await;
        assert_eq!(call(&gateway, &second, &json!({})).await.json()["code"], "secret_required");
        key(&["revoke", "carol"]);
    }
}

#[tokio::test]
async fn without_credentials_nobody_has_secrets() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&at(&server, false)).start().await;
    for answer in [gateway.get("/secrets").await, gateway.call("crm", "a", json!({})).await] {
        assert!(
            answer.status >= 400 && answer.json()["hint"].to_string().contains("credential")
                || answer.json()["hint"].to_string().contains("auth_mode"),
            "{answer:?}"
        );
    }
    assert!(server.seen().is_empty(), "{:?}", server.seen());
}

// RULES S16 S18
#[tokio::test]
async fn secrets_reach_no_log_no_status_and_no_other_server() {
    let elsewhere = Scripted::modern().tool(Tool::named("a")).start();
    let quoting = format!("Incorrect API key provided: {}", value("alice"));
    let server = Scripted::modern()
        .tool(Tool::named("a"))
        .tool(Tool::named("moved").does(Act::Redirect(elsewhere.url())))
        .tool(Tool::named("quotes").does(Act::Error(json!({"code": -32000, "message": quoting}).to_string())))
        .refuses("prompts/get", &quoting)
        .start();
    let other = Scripted::modern().tool(Tool::named("b")).start();
    let registry = at(&server, false).http("other", &other.url()).setting(&keys());
    let gateway = Gateway::of(&registry).env("SWITCHYARD_LOG", "debug").start().await;
    set(&gateway, ALICE, &value("alice")).await;
    for tool in ["a", "moved", "quotes"] {
        let body = json!({"server": "crm", "tool": tool, "arguments": {}});
        rest(&gateway, ALICE, "/call").post(&body.to_string(), &[]).await;
    }
    eventually("the other server is called", async || {
        (client(&gateway, ALICE).call("b", json!({})).await.status == 200
            && !other.seen_calling("tools/call").is_empty())
        .then_some(())
    })
    .await;
    assert_eq!(server.seen_calling("tools/call").len(), 3);
    assert!(elsewhere.seen().is_empty(), "a redirect to another origin is not followed");
    assert!(other.seen().iter().all(|seen| !format!("{seen:?}").contains(CANARY)));
    for route in [
        "/servers",
        "/servers/crm",
        "/history",
        "/configuration",
        "/secrets?principal=key%3Aalice",
        "/health",
    ] {
        let answer = get(&gateway, OPERATOR, route).await;
        assert!(answer.status == 200 && !answer.body.contains(CANARY), "{route}: {answer:?}");
    }
    let metrics = client(&gateway, OPERATOR).to(&gateway.url("/metrics")).bare(http::Method::GET, &[]).await;
    assert!(!metrics.body.contains(CANARY), "{}", metrics.body);
    let text = gateway.log().iter().map(Value::to_string).collect::<String>();
    assert!(text.contains("crm") && !text.contains(CANARY), "a value is in the log");
}

#[tokio::test]
async fn misplaced_references_are_refused_with_their_line_and_a_hint() {
    let own = |line: &str| {
        let registry = Registry::new().http("crm", "http://127.0.0.1:9/mcp").with(line).setting(&keys());
        let (code, out, err) = texts_of(&Gateway::of(&registry).output(&["check", "mcp_servers.yaml"]));
        (code, format!("{out}{err}"))
    };
    for (line, parts) in [
        ("auth: {bearer: \"${principal:X}\"}", &["each caller has a value", "`headers`"][..]),
        ("description: \"${principal:X}\"", &["each caller has a value"]),
        ("headers: {X-A: \"${principal:X:-none}\"}", &["has a default", "remove the default"]),
        ("headers: {X-A: \"${HOME} ${principal:X}\"}", &["beside another reference"]),
        ("headers: {X-A: \"${principal:}\"}", &["is not the name of a secret"]),
        ("headers: {X-A: \"${principal:a b}\"}", &["is not the name of a secret"]),
        ("headers: {X-A: \"${principal:X}\"}\n    sharing: shared", &["`${principal:…}`", "own connections"]),
        (
            "headers: {Authorization: \"Bearer ${principal:X}\"}\n    auth: oauth",
            &["sets Authorization already"],
        ),
    ] {
        let (code, text) = own(line);
        assert_eq!(code, Some(2), "{line}: {text}");
        let is_located = |line: &str| text.contains(&format!("mcp_servers.yaml:{line}:"));
        assert!(["2", "4", "5"].into_iter().any(is_located), "{line}: {text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{line}: {text}");
    }
    let child = Registry::new().child("own", &[]).with("env: {KEY: \"${principal:X}\"}").setting(&keys());
    let (code, out, err) = texts_of(&Gateway::of(&child).output(&["check", "mcp_servers.yaml"]));
    assert!(code == Some(2) && format!("{out}{err}").contains("each caller has a value"), "{out}{err}");
    for line in [
        "headers: {Authorization: \"Bearer ${principal:X}\"}",
        "headers: {X-A: \"${principal:X}:${principal:Y}\", X-B: \"$${principal:X}\"}",
    ] {
        let (code, text) = own(line);
        assert_eq!(code, Some(0), "{line}: {text}");
    }
}

#[tokio::test]
async fn first_call_of_a_principal_at_a_hanging_server_ends_at_the_timeout_of_the_call() {
    let server = odd::http(|seen| {
        let hangs = seen.method() == "initialize" && seen.header("x-api-key") == Some(&value("bob"));
        hangs.then(|| vec![Step::Hang])
    })
    .await;
    let registry = Registry::new().http("crm", server.url.as_str()).with(HEADER).setting(&keys());
    let gateway = Gateway::of(&registry).start().await;
    for (key, who) in [(ALICE, "alice"), (BOB, "bob")] {
        set(&gateway, key, &value(who)).await;
    }
    let fine = |timeout: u64| json!({"server": "crm", "tool": "fine", "timeout": timeout}).to_string();
    let answered = rest(&gateway, ALICE, "/call").post(&fine(10), &[]).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let started = Instant::now();
    let refused = rest(&gateway, BOB, "/call").post(&fine(2), &[]).await;
    assert_ne!(refused.status, 200, "{refused:?}");
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}: {refused:?}", started.elapsed());
}
