//! Live events, read by `switchyard logs`.
//!
//! Not here: the route and its filters (`admin::events`).

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::process::Process;
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry, eventually};

#[tokio::test]
async fn followed_calls_are_shown_as_they_happen_and_recorded_for_others() {
    let server = Scripted::modern().tool(Tool::named("add")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["add"]).await;
    let url = gateway.url("");
    let mut command = gateway.gateway().command("logs");
    command.args(["--follow", "-o", "json", "--url", &url]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut follower = Process::start(command);
    let (sender, lines) = std::sync::mpsc::channel();
    let out = BufReader::new(follower.take_stdout());
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let shown = eventually("a call is shown", async || {
        gateway.call("one", "add", json!({"a": 1})).await;
        lines.try_iter().find(|line| line.contains("call_ended"))
    });
    let shown: Value = serde_json::from_str(&shown.await).expect("one JSON object on a line");
    let data = &shown["data"];
    assert_eq!(
        (&data["server"], &data["tool"], &data["outcome"]),
        (&json!("one"), &json!("add"), &json!("ok"))
    );

    let recorded = gateway.gateway().output(&["logs", "--outcome", "ok", "--url", &url]);
    assert_eq!(recorded.status.code(), Some(0));
    let recorded = String::from_utf8(recorded.stdout).expect("UTF-8");
    assert!(
        recorded.lines().all(|line| line.contains("  ok  ") && line.ends_with("  one  add  anonymous")),
        "{recorded}"
    );
    assert!(!recorded.is_empty());
    assert!(gateway.gateway().output(&["logs", "--outcome", "failed", "--url", &url]).stdout.is_empty());

    let away = gateway.gateway().output(&["logs", "--follow", "--url", "http://127.0.0.1:1"]);
    assert_eq!(away.status.code(), Some(3));
}
