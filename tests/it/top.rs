//! `switchyard top` without a terminal, from outside: one sample, and exit codes.
//!
//! Not here: its screens (`tests/terminal`).

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::scripted::{Refusing, Scripted, Tool};
use crate::support::{Gateway, Registry};

#[tokio::test]
async fn a_sample_has_the_rate_and_durations_of_its_interval() {
    let server = Scripted::modern().tool(Tool::named("add")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["add"]).await;
    let mut command = gateway.gateway().command("top");
    command.args(["--interval", "1s", "-o", "json", "--url", &gateway.url("")]);
    let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut top = output.spawn().expect("it starts");
    while top.try_wait().expect("a status").is_none() {
        gateway.call("one", "add", json!({"a": 1})).await;
    }
    let output = top.wait_with_output().expect("its output");
    let sample: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let one = &sample["servers"][0];
    assert_eq!(
        (&one["name"], &one["breaker"], &one["failures"]),
        (&json!("one"), &json!("closed"), &json!(0))
    );
    let figure = |name: &str| one[name].as_f64().unwrap_or_else(|| panic!("{name} of {one}"));
    assert!(figure("calls_per_second") > 0.0 && figure("calls") >= figure("calls_per_second"), "{one}");
    assert!(figure("p50_ms") > 0.0 && figure("p50_ms") <= figure("p99_ms"), "{one}");
}

#[tokio::test]
async fn a_gateway_that_is_away_or_refuses_the_key_has_a_code_of_its_own() {
    let keys = "server: {auth_mode: api_key, api_keys: [{id: op, role: reader, \
                hash: \"sha256:5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9\"}]}";
    let gateway = Gateway::of(&Registry::new().setting(keys)).start().await;
    let (here, gone) = (gateway.url(""), Refusing::new());
    for (arguments, code, reason) in [
        (&["top", "--url", &gone.url()][..], 3, "cannot reach the gateway"),
        (&["top", "--url", &here], 4, "SWITCHYARD_KEY"),
        (&["top", "--url", &here, "--interval", "2"], 2, "expected a time from 250ms to 1h"),
    ] {
        let output = gateway.gateway().output(arguments);
        let reasons = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &b""[..]), "{reasons}");
        assert!(reasons.contains(reason), "{reasons}");
    }
}
