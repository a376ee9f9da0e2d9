//! The project of R2R that follows its client, a folder that is ingested, and the limit for requests.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::client::{Client, MODERN, client_info};
use crate::support::gateway::Running;
use crate::support::r2r::{Fault, KEY, R2r};
use crate::support::{Gateway, Registry};

const CONTEXT: &str = "r2r://current-project/context";
const META: &str = "switchyard/project";

async fn serving(r2r: &R2r, folder: &TempDir, options: &str) -> Running {
    let mapping = folder.path().join("collections.json");
    let lines = [
        "transport: builtin".to_owned(),
        "builtin: r2r".to_owned(),
        format!("url: {}", r2r.url()),
        "retry_delay: 0.1".to_owned(),
        format!("r2r: {{api_key: {KEY:?}, collection_mapping_file: {}, {options}}}", mapping.display()),
    ];
    let gateway = Gateway::of(&Registry::new().server("r2r", &lines)).start().await;
    gateway.offers(&["r2r_search", "r2r_ingest_folder"]).await;
    gateway
}

fn names(r2r: &R2r) -> Vec<String> {
    let name = |one: &Value| one["name"].as_str().expect("a name").to_owned();
    r2r.collections().iter().map(name).filter(|name| name.starts_with("claude-code-")).collect()
}

fn context(result: &Value) -> Value {
    serde_json::from_str(result["contents"][0]["text"].as_str().expect("text")).expect("JSON")
}

/// `params` with a project in `_meta`, and with what a modern request has there.
fn about(project: &Value, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": client_info(),
        META: project,
    });
    params
}

#[tokio::test]
async fn a_call_is_about_the_project_that_its_client_names() {
    let (r2r, folder) = (R2r::start(), tempfile::tempdir().expect("a folder"));
    let gateway = serving(&r2r, &folder, "project: usual, project_from: client").await;
    let listing = json!({"name": "r2r_list_documents", "arguments": {}});
    let modern = gateway.mcp();
    let session = modern.legacy().await;
    for (project, name, path) in [
        (json!("one"), "one", Value::Null),
        (json!("/home/me/two"), "two", json!("/home/me/two")),
        (json!("file:///home/me/my%20three"), "my three", json!("/home/me/my three")),
    ] {
        let answer = modern.modern("tools/call", about(&project, listing.clone())).await.result();
        assert_eq!(answer["isError"], false, "{answer}");
        let mut legacy = listing.clone();
        legacy["_meta"] = json!({META: project});
        assert_eq!(session.request("tools/call", legacy).await.result()["isError"], false);
        assert!(names(&r2r).contains(&format!("claude-code-{name}")), "{:?}", names(&r2r));
        let read = modern.modern("resources/read", about(&project, json!({"uri": CONTEXT}))).await.result();
        let context = context(&read);
        assert_eq!((&context["project_name"], &context["project_path"]), (&json!(name), &path), "{context}");
    }
    assert_eq!(names(&r2r).len(), 3, "one for each, whoever asks");
    modern.modern("tools/call", json!({"name": "r2r_list_documents", "arguments": {}})).await.result();
    assert_eq!(gateway.call("r2r", "r2r_list_documents", json!({})).await.status, 200);
    assert_eq!(names(&r2r).len(), 4, "who names none has that of the settings");
    for wrong in [json!(7), json!(""), json!("/"), json!("x".repeat(200))] {
        let answer = modern.modern("tools/call", about(&wrong, listing.clone())).await;
        let refused: Value = serde_json::from_str(&answer.text()).expect("JSON");
        assert_eq!(refused["field"], format!("_meta.{META}"), "{answer:?}");
    }
}

#[tokio::test]
async fn the_project_of_the_settings_stays_where_clients_are_not_followed() {
    let (r2r, folder) = (R2r::start(), tempfile::tempdir().expect("a folder"));
    let gateway = serving(&r2r, &folder, "project: /srv/usual").await;
    let call = about(&json!("/home/me/other"), json!({"name": "r2r_list_documents", "arguments": {}}));
    assert_eq!(gateway.mcp().modern("tools/call", call).await.result()["isError"], false);
    assert_eq!(names(&r2r), ["claude-code-usual"]);
    let read = gateway.mcp().modern("resources/read", json!({"uri": CONTEXT})).await.result();
    assert_eq!(context(&read)["project_path"], "/srv/usual");
}

#[tokio::test]
async fn a_folder_of_the_settings_is_shown_as_an_absolute_path() {
    let (r2r, folder) = (R2r::start(), tempfile::tempdir().expect("a folder"));
    let gateway = serving(&r2r, &folder, "project: usual, ingest_roots: [docs]").await;
    let read = gateway.mcp().modern("resources/read", json!({"uri": CONTEXT})).await.result();
    let path = context(&read)["project_path"].as_str().expect("a path").to_owned();
    assert!(path.starts_with('/') && path.ends_with("/docs"), "{path}");
}

/// A legacy session of a client that has folders.
async fn with_folders(client: &Client) -> Client {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"roots": {"listChanged": true}}, "clientInfo": client_info(),
    });
    let started = client.post(&client.envelope("initialize", &params.to_string()), &[]).await;
    let session =
        client.clone().with_header("mcp-session-id", started.header("mcp-session-id").expect("a session"));
    let session = session.with_header("mcp-protocol-version", "2025-11-25");
    session.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &[]).await;
    session
}

/// The result of a request of a client whose folders are `roots`.
async fn request_with_roots(client: &Client, method: &str, params: Value, roots: &Value) -> Value {
    let mut stream = client.post_stream(&client.envelope(method, &params.to_string()), &[]).await;
    let question = stream.next().await.expect("a question");
    assert_eq!(question["method"], "roots/list", "{question}");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": roots}});
    assert_eq!(client.post(&answer.to_string(), &[]).await.status, 202);
    stream.next().await.expect("a result")["result"].clone()
}

#[tokio::test]
async fn a_client_with_folders_is_asked_for_them() {
    let (r2r, folder) = (R2r::start(), tempfile::tempdir().expect("a folder"));
    let gateway = serving(&r2r, &folder, "project: usual, project_from: client").await;
    let call = json!({"name": "r2r_list_documents", "arguments": {}});
    let (one, other) = (with_folders(&gateway.mcp()).await, with_folders(&gateway.mcp()).await);
    let folders =
        |name: &str| json!([{"uri": "https://a.test/x"}, {"uri": format!("file:///home/me/{name}")}]);
    for (client, name) in [(&one, "left"), (&other, "right"), (&one, "moved")] {
        let answer = request_with_roots(client, "tools/call", call.clone(), &folders(name)).await;
        assert_eq!(answer["isError"], false, "{answer}");
        let read =
            request_with_roots(client, "resources/read", json!({"uri": CONTEXT}), &folders(name)).await;
        assert_eq!(context(&read)["project_path"], format!("/home/me/{name}"));
    }
    request_with_roots(&one, "tools/call", call, &json!([])).await;
    let mut found = names(&r2r);
    found.sort();
    assert_eq!(found, ["left", "moved", "right", "usual"].map(|name| format!("claude-code-{name}")));
    // Which collection is meant is clear without the client.
    let all = json!({"name": "r2r_list_collections", "arguments": {}});
    let answer = one.post(&one.envelope("tools/call", &all.to_string()), &[]).await;
    assert_eq!(answer.result()["isError"], false);
    let modern = json!({
        "name": "r2r_list_documents", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
            "io.modelcontextprotocol/clientInfo": client_info(),
        },
    });
    let expected = gateway.mcp().modern("tools/call", modern.clone()).await.result();
    assert_eq!(expected["resultType"], "input_required", "{expected}");
    let key = expected["inputRequests"].as_object().expect("requests").keys().next().expect("one").clone();
    assert_eq!(expected["inputRequests"][&key]["method"], "roots/list");
    let mut again = modern;
    again["inputResponses"] = json!({key: {"roots": [{"uri": "file:///home/me/modern"}]}});
    assert_eq!(gateway.mcp().modern("tools/call", again).await.result()["isError"], false);
    assert!(names(&r2r).contains(&"claude-code-modern".to_owned()));
}

#[tokio::test]
async fn a_folder_is_ingested_file_by_file_with_progress() {
    let (r2r, folder) = (R2r::start(), tempfile::tempdir().expect("a folder"));
    let docs = folder.path().join("docs");
    std::fs::create_dir_all(docs.join("deep")).expect("made");
    for (name, text) in [("a.md", "alpha"), ("deep/b.md", "beta"), ("c.txt", "gamma"), ("empty.md", "")] {
        std::fs::write(docs.join(name), text).expect("written");
    }
    std::os::unix::fs::symlink("/etc/hostname", docs.join("link.md")).expect("linked");
    let options = format!("project: usual, ingest_roots: [{}]", docs.display());
    let gateway = serving(&r2r, &folder, &options).await;
    let arguments = json!({"folder_path": docs.display().to_string(), "metadata": {"team": "core"}});
    let mut params = about(&Value::Null, json!({"name": "r2r_ingest_folder", "arguments": arguments}));
    params["_meta"]["progressToken"] = json!("files");
    let answer = gateway.mcp().modern("tools/call", params).await;
    let told = answer.result()["structuredContent"].clone();
    assert_eq!(
        (&told["total"], &told["ingested"], &told["ignored"], &told["stopped"]),
        (&json!(4), &json!(3), &json!(1), &Value::Null),
        "{told}"
    );
    let empty = &told["not_ingested"][0];
    assert!(empty["file_path"].as_str().is_some_and(|path| path.ends_with("/empty.md")), "{told}");
    assert!(empty["reason"].as_str().is_some_and(|reason| reason.contains("empty")), "{told}");
    let progress: Vec<Value> =
        answer.notifications().iter().map(|said| said["params"]["progress"].clone()).collect();
    assert_eq!(progress, [1.0, 2.0, 3.0, 4.0].map(|done| json!(done)));
    assert!(answer.notifications().iter().all(|said| said["params"]["total"] == 4.0));
    assert_eq!(r2r.documents().len(), 3);
    let sent = r2r.count("POST /v3/documents");
    let again = gateway.call("r2r", "r2r_ingest_folder", arguments.clone()).await.json();
    assert_eq!((&again["data"]["ingested"], r2r.count("POST /v3/documents")), (&json!(3), sent), "{again}");
    for (path, word) in [("/etc", "allowed folder"), ("docs", "absolute"), ("/no/../such", "..")] {
        let refused = gateway.call("r2r", "r2r_ingest_folder", json!({"folder_path": path})).await.json();
        assert_eq!(refused["data"]["field"], "folder_path", "{refused}");
        assert!(refused["data"]["message"].as_str().is_some_and(|text| text.contains(word)), "{refused}");
    }
    std::fs::write(docs.join("a.md"), "another").expect("written");
    r2r.fail_next("/v3/documents", 1_000, Fault::Status(401));
    let failed = gateway.call("r2r", "r2r_ingest_folder", arguments).await;
    assert_ne!(failed.status, 200, "a service that refuses all ends it: {failed:?}");
}

#[tokio::test]
async fn upload_that_r2r_refuses_is_repeated_within_one_budget_for_each_call() {
    let faults = [Fault::RateLimited(Some(0)), Fault::RateLimited(None), Fault::Status(502)];
    for (tool, fault) in ["r2r_ingest_document", "r2r_ingest_folder"]
        .iter()
        .flat_map(|tool| faults.each_ref().map(|fault| (*tool, fault)))
    {
        let (r2r, folder) = (R2r::start(), tempfile::tempdir().expect("a folder"));
        let docs = folder.path().join("docs");
        std::fs::create_dir_all(&docs).expect("made");
        let gateway =
            serving(&r2r, &folder, &format!("project: usual, ingest_roots: [{}]", docs.display())).await;
        let (argument, path) = if tool.ends_with("folder") {
            ("folder_path", docs.clone())
        } else {
            ("file_path", docs.join("a.md"))
        };
        for (text, refusals, attempts, is_ingested) in
            [("alpha", 1, 2..=2, true), ("beta", 100, 2..=4, false)]
        {
            std::fs::write(docs.join("a.md"), text).expect("written");
            let before = r2r.count("POST /v3/documents");
            r2r.fail_next("POST /v3/documents", refusals, fault.clone());
            let mut arguments = json!({argument: path.display().to_string()});
            if tool == "r2r_ingest_document" {
                arguments["run_async"] = json!(false);
            }
            let answer = gateway.call("r2r", tool, arguments).await;
            assert_eq!(answer.status == 200, is_ingested, "{tool} {fault:?}: {answer:?}");
            let sent = r2r.count("POST /v3/documents") - before;
            assert!(attempts.contains(&sent), "{tool} {fault:?}: sent {sent} times: {answer:?}");
        }
    }
}

#[tokio::test]
async fn no_more_requests_are_sent_within_a_minute_than_allowed() {
    let (r2r, folder) = (R2r::start(), tempfile::tempdir().expect("a folder"));
    let gateway =
        serving(&r2r, &folder, "project: usual, requests_per_minute: 8, cache_ttl: {list: 0}").await;
    let before = r2r.seen().len();
    let mut refused = None;
    for offset in 0..20 {
        let body = json!({"server": "r2r", "tool": "r2r_list_collections", "arguments": {"offset": offset}, "timeout": 2});
        let answer = gateway.post("/call", &body.to_string()).await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("the limit holds");
    let problem = refused.json();
    assert_eq!((&problem["server_status"], &problem["retryable"]), (&json!(429), &json!(true)), "{problem}");
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains("requests_per_minute")), "{problem}");
    let wait = problem["retry_after_ms"].as_u64().expect("milliseconds");
    assert!((30_000..=60_000).contains(&wait), "{wait}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let sent = r2r.seen()[before..].iter().filter(|seen| seen.path != "/v3/health").count();
    assert!(sent <= 8, "{sent} requests");
    let failed = gateway.mcp().call("r2r_list_collections", json!({"offset": 99})).await;
    assert_eq!(failed.error_code(), -31004, "{failed:?}");
    assert_eq!(failed.error()["data"]["type"], "rate_limited", "{failed:?}");
    // A new connection does not begin a new minute.
    assert_eq!(gateway.post("/servers/r2r/reconnect", "").await.status, 200);
    let again = gateway.mcp().call("r2r_list_collections", json!({"offset": 98})).await;
    assert_eq!(again.error()["data"]["type"], "rate_limited", "{again:?}");
}
