//! Grants as operators and people see and end them, from outside: over REST and by `switchyard grants`.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::revoked::Open;
use crate::support::remote_client::{CALLBACK, RemoteClient, Tokens, free_address};
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, Running, api_keys, eventually};

const ANN: &str = "swy_ann_0123456789abcdef0123456789abcdef0123456789abcdef";
const BOB: &str = "swy_bob_fedcba9876543210fedcba9876543210fedcba9876543210";
const OPS: &str = "swy_ops_00112233445566778899aabbccddeeff0011223344556677";

async fn started(server: &Server) -> Running {
    let address = free_address();
    let keys = api_keys(&[(OPS, "role: superuser"), (ANN, "role: caller"), (BOB, "role: caller")]);
    let settings = format!(
        "server: {{{keys}, public_url: 'http://{address}', state_dir: state, authorization_server: {{keys: true}}}}"
    );
    let registry = Registry::new().http("one", &server.url()).setting(&settings);
    let gateway = Gateway::of(&registry).listening_on(address).start().await;
    gateway.offers_to("one", &format!("Bearer {OPS}")).await;
    gateway
}

fn server() -> Server {
    Scripted::modern().tool(Tool::named("one")).tool(Tool::named("slow").does(Act::Hang)).start()
}

async fn client(gateway: &Running) -> RemoteClient {
    RemoteClient::refused_at(&gateway.url("/mcp")).await.registered(CALLBACK).await
}

fn with(gateway: &Running, path: &str, credential: &str) -> Client {
    Client::at(&gateway.url(path)).with_header("authorization", &format!("Bearer {credential}"))
}

/// Exit code and output of `switchyard grants` with `key`.
fn grants(gateway: &Running, key: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let url = gateway.url("");
    let output = gateway.gateway().output(&[&["grants"], arguments, &["--url", &url, "--key", key]].concat());
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    (output.status.code(), text)
}

fn listed(gateway: &Running, key: &str) -> Vec<Value> {
    let (code, text) = grants(gateway, key, &["-o", "json"]);
    assert_eq!(code, Some(0), "{text}");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    document["grants"].as_array().expect("a list").clone()
}

/// A call that runs with `tokens`.
#[allow(clippy::disallowed_methods)] // a test's own task; it is joined
fn running(gateway: &Running, tokens: &Tokens) -> tokio::task::JoinHandle<u16> {
    let mcp = with(gateway, "/mcp", &tokens.access);
    tokio::spawn(async move { mcp.call("slow", json!({})).await.status })
}

#[tokio::test]
async fn every_way_to_end_a_grant_ends_what_runs_with_it_within_a_second() {
    let server = server();
    let gateway = started(&server).await;
    for (way, runs) in
        ["DELETE /grants/ID", "revoke END", "revoke --of", "revoke --client"].into_iter().zip(1..)
    {
        let client = client(&gateway).await;
        let (anns, bobs) = (client.logged_in(ANN, &[]).await, client.logged_in(BOB, &[]).await);
        let mut open = Open::of(&gateway, &anns.access).await;
        let others = Open::of(&gateway, &bobs.access).await;
        let call = running(&gateway, &anns);
        eventually("the call has reached the server", async || (server.runs("slow") >= runs).then_some(()))
            .await;
        let of_ann = listed(&gateway, ANN);
        let id = of_ann.first().expect("a grant")["id"].as_str().expect("an id").to_owned();
        let ran = match way {
            "DELETE /grants/ID" => {
                let route = format!("/api/v1/mcp/grants/{id}");
                let ended = with(&gateway, &route, ANN).bare(Method::DELETE, &[]).await;
                (Some(i32::from(ended.status != 200)), ended.body)
            }
            "revoke END" => grants(&gateway, OPS, &["revoke", &id[id.len() - 8..]]),
            "revoke --of" => grants(&gateway, OPS, &["revoke", "--of", "key:ann"]),
            _ => grants(&gateway, OPS, &["revoke", "--client", &client.id]),
        };
        let began = Instant::now();
        assert_eq!(ran.0, Some(0), "{way}: {}", ran.1);
        open.ends().await;
        assert_eq!(call.await.expect("an answer"), 401, "{way}");
        assert!(began.elapsed() < Duration::from_secs(1), "{way}: {:?}", began.elapsed());
        assert_eq!(open.next_requests().await, [401, 401], "{way}");
        // A client that was removed has to register again, and nobody's grant to it is left.
        let (error, others_get) = match way {
            "revoke --client" => ("invalid_client", [401, 401]),
            _ => ("invalid_grant", [200, 202]),
        };
        assert_eq!(client.refresh(&anns).await.json["error"], error, "{way}");
        assert_eq!(others.next_requests().await, others_get, "{way}: the other person");
        grants(&gateway, OPS, &["revoke", "--of", "key:bob"]);
    }
    let audited = |line: &Value| line["target"] == "switchyard::audit" && line["of"] == "key:ann";
    let lines = gateway.logs("the ends are in the audit log", audited).await;
    let first = lines.iter().find(|line| line["action"] == "revoke_grant").expect("a line");
    assert_eq!((&first["principal"], &first["outcome"]), (&json!("key:ann"), &json!("done")));
    for member in ["grant", "client"] {
        assert!(first[member].as_str().is_some_and(|text| text.len() > 20), "{first}");
    }
    let removed = |line: &Value| line["action"] == "remove_client" && line["principal"] == "key:ops";
    gateway.logs("so is the removal of the client", removed).await;
}

#[tokio::test]
async fn people_list_own_grants_and_operators_all_of_them_with_their_clients() {
    let server = server();
    let gateway = started(&server).await;
    let client = client(&gateway).await;
    for key in [ANN, BOB] {
        client.logged_in(key, &[]).await;
    }
    let [own] = &*listed(&gateway, ANN) else { panic!("one grant") };
    assert_eq!((&own["principal"], &own["client_name"]), (&json!("key:ann"), &json!("Test client")));
    assert_eq!(listed(&gateway, OPS).len(), 2);
    let (code, table) = grants(&gateway, OPS, &[]);
    assert_eq!(code, Some(0));
    for text in ["key:ann", "key:bob", "Test client", "nobody", "caller", &gateway.url("/mcp")] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let (_, clients) = grants(&gateway, OPS, &["clients"]);
    assert!(clients.contains(&client.id) && clients.contains("registered"), "{clients}");
    let foreign = own["id"].as_str().expect("an id");
    for (arguments, code, text) in [
        (&["clients"][..], 4, "role"),
        (&["revoke", foreign], 1, "there is no grant"),
        (&["revoke", "--of", "key:ann"], 4, "role"),
        (&["revoke", "--client", &client.id], 4, "role"),
        (&["revoke"], 2, "--of"),
    ] {
        let ran = grants(&gateway, BOB, arguments);
        assert!(ran.0 == Some(code) && ran.1.contains(text), "{arguments:?}: {ran:?}");
    }
    assert_eq!(listed(&gateway, OPS).len(), 2, "nothing ended");
    let refused = |line: &Value| line["outcome"] == "forbidden" && line["of"] == "key:ann";
    gateway.logs("the audit log says whose grants were not ended", refused).await;
    let refused = |line: &Value| line["message"] == "refused" && line["client"] == client.id.as_str();
    gateway.logs("and which client was not removed", refused).await;
}

#[tokio::test]
async fn gateway_without_an_authorization_server_says_so() {
    let server = server();
    let settings = format!("server: {{{}}}", api_keys(&[(OPS, "role: superuser")]));
    let registry = Registry::new().http("one", &server.url()).setting(&settings);
    let gateway = Gateway::of(&registry).start().await;
    let (code, text) = grants(&gateway, OPS, &[]);
    assert!(code == Some(1) && text.contains("no authorization server"), "{text}");
    assert!(text.contains("`authorization_server` under `server:`"), "{text}");
}
