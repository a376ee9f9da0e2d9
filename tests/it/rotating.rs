//! Rotation of a server's token in a file (`auth: {bearer_file}`): no call fails, none runs twice, and a
//! server that had refused the old token becomes usable again.

use serde_json::json;

use crate::support::gateway::Running;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, eventually};

/// A gateway whose server `one` has the tool `a` and requires `expected`, while the file contains
/// `written`.
async fn started(server: Scripted, (expected, written): (&str, &str)) -> (Running, Server) {
    let server = server.tool(Tool::named("a")).start();
    server.wants_token(expected);
    let (registry, url) = (Registry::new(), server.url());
    let registry = if url.ends_with("/sse") { registry.sse("one", &url) } else { registry.http("one", &url) };
    let registry = registry.with("auth: {bearer_file: token}").setting("health_check_interval: 1");
    let gateway = Gateway::of(&registry);
    std::fs::write(gateway.folder().join("token"), format!("{written}\n")).expect("written");
    (gateway.start().await, server)
}

fn write(gateway: &Running, token: &str) {
    // The file is replaced by a rename, as rotation tools do, so a reader sees the old or the new token.
    let (file, next) = (gateway.folder().join("token"), gateway.folder().join("next"));
    std::fs::write(&next, token).expect("written");
    std::fs::rename(next, file).expect("renamed");
}

async fn state(gateway: &Running) -> String {
    gateway.get("/servers/one").await.json()["state"].as_str().expect("a word").to_owned()
}

#[tokio::test]
async fn calls_go_on_while_the_token_is_replaced_and_none_runs_twice() {
    for server in [Scripted::modern(), Scripted::legacy(), Scripted::sse()] {
        let (gateway, server) = started(server, ("first-token", "first-token")).await;
        gateway.offers(&["a"]).await;
        for (number, token) in ["second-token", "third-token"].into_iter().enumerate() {
            write(&gateway, token);
            server.wants_token(token);
            for call in 1..=3 {
                let answer = gateway.call("one", "a", json!({})).await;
                assert_eq!(answer.status, 200, "{token}: {answer:?}");
                assert_eq!(server.runs("a"), number * 3 + call);
            }
        }
        assert_eq!(state(&gateway).await, "ready");
    }
}

#[tokio::test]
async fn a_server_that_refused_the_old_token_is_back_with_the_new_one() {
    let (gateway, server) = started(Scripted::modern(), ("right-token", "wrong-token")).await;
    eventually("refused", async || (state(&gateway).await == "auth_failed").then_some(())).await;
    let asked = server.seen().len();
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!(server.seen().len(), asked, "it is left alone");
    write(&gateway, "right-token");
    gateway.offers(&["a"]).await;
    assert_eq!(gateway.call("one", "a", json!({})).await.status, 200);
    let log: Vec<String> = gateway.log().iter().map(ToString::to_string).collect();
    for token in ["right-token", "wrong-token"] {
        assert!(!log.iter().any(|line| line.contains(token)), "{log:#?}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_there_is_told_and_waited_for() {
    let (gateway, server) = started(Scripted::modern(), ("a-token", "")).await;
    let told = eventually("failed", async || {
        let one = gateway.get("/servers/one").await.json();
        one["last_error"].as_str().filter(|error| error.contains("token")).map(str::to_owned)
    });
    let told = told.await;
    assert!(told.contains("there is no token in") && told.contains("empty"), "{told}");
    assert!(server.seen().is_empty(), "nothing is sent without it");
    write(&gateway, "a-token");
    gateway.offers(&["a"]).await;
}
