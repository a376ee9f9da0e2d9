//! Changes of the configuration file and of the file of keys over REST, as the dashboard makes them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use reqwest::Method;
use serde_json::{Value, json};

use crate::revoked::bearer;
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Running, eventually};

/// A gateway with a key of a superuser, and that key.
async fn started(servers: &str) -> (Running, String) {
    let lines = format!("server: {{auth_mode: api_key, keys_file: keys.json}}\nmcp_servers:\n{servers}");
    let gateway = Gateway::with_config(&lines);
    let made = gateway.output(&["key", "add", "ops", "--role", "superuser"]);
    let key = String::from_utf8(made.stdout).expect("text").trim().to_owned();
    (gateway.start().await, key)
}

/// Status and body of an answer.
async fn ask(gateway: &Running, key: &str, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let url = gateway.url(&format!("/api/v1/mcp{path}"));
    let request = reqwest::Client::new().request(method, url).header("authorization", bearer(key));
    let request = match body {
        Some(body) => request.header("content-type", "application/json").body(body.to_string()),
        None => request,
    };
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.expect("a body")).unwrap_or_default())
}

fn text_of(gateway: &Running) -> String {
    fs::read_to_string(gateway.folder().join("mcp_servers.yaml")).expect("there")
}

#[tokio::test]
async fn server_is_added_changed_and_removed_while_the_gateway_runs() {
    let one = Scripted::modern().tool(Tool::named("a")).start();
    let two = Scripted::modern().tool(Tool::named("b")).start();
    let (gateway, key) = started(&format!("  # The first one.\n  one: {{url: \"{}\"}}\n", one.url())).await;
    gateway.offers_to("a", &bearer(&key)).await;
    let before = text_of(&gateway);
    let body = || Some(json!({"url": two.url(), "description": "The second."}));
    let (status, planned) = ask(&gateway, &key, Method::PUT, "/servers/two?dry_run=true", body()).await;
    assert_eq!((status, &planned["written"]), (200, &json!(false)), "{planned}");
    assert_eq!(
        (planned["after"]["url"].as_str(), text_of(&gateway)),
        (Some(two.url().as_str()), before.clone())
    );
    let (status, made) = ask(&gateway, &key, Method::PUT, "/servers/two", body()).await;
    assert_eq!((status, &made["reloaded"]["added"]), (200, &json!(["two"])), "{made}");
    gateway.offers_to("b", &bearer(&key)).await;
    let backup = gateway.folder().join(made["backup"].as_str().expect("a backup"));
    assert_eq!(fs::read_to_string(backup).expect("there"), before);
    assert!(text_of(&gateway).contains("# The first one."));

    let (status, edited) =
        ask(&gateway, &key, Method::PATCH, "/servers/two", Some(json!({"enabled": false}))).await;
    assert_eq!((status, &edited["reloaded"]["changed"]), (200, &json!(["two"])), "{edited}");
    let (status, refused) =
        ask(&gateway, &key, Method::PUT, "/servers/two", Some(json!({"url": one.url()}))).await;
    assert_eq!((status, &refused["code"]), (409, &json!("file_not_changed")), "{refused}");
    let (status, removed) = ask(&gateway, &key, Method::DELETE, "/servers/two", None).await;
    assert_eq!((status, &removed["reloaded"]["removed"]), (200, &json!(["two"])), "{removed}");

    for (path, body) in [("/servers/x", json!({"url": "${HOME}"})), ("/servers/x", json!({"command": "id"}))]
    {
        assert_eq!(ask(&gateway, &key, Method::PUT, path, Some(body)).await.0, 400);
    }
    // Root may write everything, so only the mode says that the file is read-only.
    let path = gateway.folder().join("mcp_servers.yaml");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).expect("set");
    let (status, refused) = ask(&gateway, &key, Method::DELETE, "/servers/one", None).await;
    assert!(
        status == 409 && refused["detail"].as_str().is_some_and(|text| text.contains("read-only")),
        "{refused}"
    );

    let is_audit = |line: &Value| line["target"] == "switchyard::audit" && line["server"] == "two";
    let lines = gateway.logs("audit lines", is_audit).await;
    let actions: Vec<_> =
        lines.iter().map(|line| (line["action"].as_str(), line["outcome"].as_str())).collect();
    let (done, refused) = (Some("done"), Some("file_not_changed"));
    let expected = [
        (Some("add_server"), done),
        (Some("edit_server"), done),
        (Some("add_server"), refused),
        (Some("remove_server"), done),
    ];
    assert_eq!(actions, expected, "a dry run is no operation");
}

#[tokio::test]
async fn server_that_must_be_public_is_not_dialed_in_this_network() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    // The name of the address, because the file with the address itself has a mistake.
    let url = server.url().replace("127.0.0.1", "localhost");
    let (gateway, key) = started(&format!(
        "  one: {{url: \"{url}\", public_only: true}}\n  two: {{url: \"{}\", public_only: true}}\n",
        server.url()
    ))
    .await;
    let (_, two) = ask(&gateway, &key, Method::GET, "/servers/two", None).await;
    assert_eq!(
        (&two["state"], &two["problems"][0]["setting"]),
        (&json!("not_configured"), &json!("mcp_servers.two.public_only"))
    );
    eventually("it is not reached", async || {
        let (_, one) = ask(&gateway, &key, Method::GET, "/servers/one", None).await;
        (one["state"] == "failed").then_some(())
    })
    .await;
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn keys_are_made_and_revoked_over_rest() {
    let (gateway, key) = started("  {}\n").await;
    let (status, made) =
        ask(&gateway, &key, Method::PUT, "/keys/laptop", Some(json!({"role": "reader"}))).await;
    assert_eq!(status, 200, "{made}");
    let new = made["key"].as_str().expect("a key").to_owned();
    assert_eq!(ask(&gateway, &new, Method::GET, "/servers", None).await.0, 200, "it is accepted at once");
    assert_eq!(ask(&gateway, &new, Method::GET, "/keys", None).await.0, 403);
    let (_, all) = ask(&gateway, &key, Method::GET, "/keys", None).await;
    let names: Vec<_> = all["keys"].as_array().expect("a list").iter().map(|key| key["id"].clone()).collect();
    assert_eq!(names, ["ops", "laptop"]);
    assert_eq!(ask(&gateway, &key, Method::DELETE, "/keys/laptop", None).await.0, 200);
    assert_eq!(ask(&gateway, &new, Method::GET, "/servers", None).await.0, 401, "it is refused at once");
    let is_audit = |line: &Value| line["target"] == "switchyard::audit" && line["key"] == "laptop";
    let lines = gateway.logs("audit lines", is_audit).await;
    let actions: Vec<_> = lines.iter().map(|line| line["action"].as_str()).collect();
    assert_eq!(actions, [Some("make_key"), Some("revoke_key")]);
    assert!(!gateway.log().iter().any(|line| line.to_string().contains(&new)), "no line has the key");
}

#[tokio::test]
async fn file_is_not_changed_without_authentication() {
    let gateway = Gateway::with_config("mcp_servers: {}\n").start().await;
    for (method, body) in [
        (Method::PUT, Some(json!({"url": "http://127.0.0.1:1/mcp"}))),
        (Method::PATCH, Some(json!({}))),
        (Method::DELETE, None),
    ] {
        let (status, answer) = ask(&gateway, "x", method, "/servers/a", body).await;
        assert_eq!((status, &answer["code"]), (403, &json!("forbidden")), "{answer}");
    }
    assert_eq!(text_of(&gateway), "mcp_servers: {}\n");
    assert_eq!(ask(&gateway, "x", Method::PUT, "/keys/a", Some(json!({"role": "reader"}))).await.0, 404);
}

#[tokio::test]
async fn last_lines_of_standard_error_are_read_by_a_superuser() {
    let script = "echo first >&2; echo \"token $$SECRET_TOKEN\" >&2; exit 3";
    let entry =
        format!("  one: {{command: sh, args: [-c, '{script}'], env: {{SECRET_TOKEN: canary-secret}}}}\n");
    let (gateway, key) = started(&entry).await;
    let lines = eventually("it wrote something", async || {
        let (status, answer) = ask(&gateway, &key, Method::GET, "/servers/one/stderr", None).await;
        assert_eq!(status, 200, "{answer}");
        answer["lines"].as_array().filter(|lines| lines.len() == 2).cloned()
    })
    .await;
    assert_eq!(lines[0], "first");
    assert!(
        lines[1].as_str().is_some_and(|line| line.starts_with("token ") && !line.contains("canary")),
        "{lines:?}"
    );
    let (_, made) = ask(&gateway, &key, Method::PUT, "/keys/caller", Some(json!({"role": "caller"}))).await;
    let caller = made["key"].as_str().expect("a key").to_owned();
    assert_eq!(ask(&gateway, &caller, Method::GET, "/servers/one/stderr", None).await.0, 403);
}
