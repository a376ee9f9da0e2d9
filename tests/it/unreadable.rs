//! A result that cannot be read fails one call at once, with the cause and the position. Other calls are not affected,
//! and the circuit breaker does not count it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::scripted::{ReceivedRequest, Step, stream};

use crate::support::{Gateway, Registry, Running, odd};

/// The results that cannot be read, as JSON with `$ID` where the id belongs, and the words of the hint.
const UNREADABLE: [(&[u8], &str); 8] = [
    (br#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{"a":NaN}}}"#, "NaN at byte "),
    (br#"{"jsonrpc":"2.0","result":{"content":[],"structuredContent":{"a":[1,Infinity]}},"id":$ID}"#, "Infinity at byte "),
    (br#"{"jsonrpc":"2.0","id":"$ID","result":{"content":[],"structuredContent":{"a":-Infinity}}}"#, "-Infinity at byte "),
    (b"{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"caf\xe9\"}]}}", "UTF-8"),
    (b"{\"jsonrpc\":\"2.0\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\x93hi\x94\"}]},\"id\":$ID}", "UTF-8"),
    (b"{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xed\xa0\x80\"}]}}", "UTF-8"),
    (br#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"ha"#, "stopped after byte "),
    (br#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{'a':True}}}"#, "byte "),
];

fn of(template: &[u8], id: &str) -> Vec<u8> {
    let at = template.windows(3).position(|part| part == b"$ID").expect("an id");
    [&template[..at], id.as_bytes(), &template[at + 3..]].concat()
}

fn whole(body: &[u8]) -> Step {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Step::Bytes([head.as_bytes(), body].concat())
}

/// An event whose stream stays open after it.
fn event(body: &[u8]) -> Vec<Step> {
    let text = [b"data: ", body, b"\n\n"].concat();
    let chunk = [format!("{:x}\r\n", text.len()).as_bytes(), &text, b"\r\n"].concat();
    vec![stream(""), Step::Bytes(chunk), Step::Hang]
}

fn is_odd(seen: &ReceivedRequest) -> bool {
    seen.method() == "tools/call" && seen.has(r#""name":"odd""#)
}

async fn breaker(gateway: &Running) -> Value {
    gateway.get("/circuit-breakers").await.json()["circuit_breakers"][0].clone()
}

/// Calls the tool whose result is unreadable, and one that is well.
async fn fails_alone(gateway: &Running, hint: &str, what: &str) {
    for _ in 0..7 {
        let began = Instant::now();
        let failed = gateway.call("one", "odd", json!({})).await;
        let (error, took) = (failed.json(), began.elapsed());
        assert_eq!((failed.status, &error["code"]), (502, &json!("invalid_answer")), "{what}: {error}");
        assert!(error["hint"].as_str().is_some_and(|text| text.contains(hint)), "{what}: {error}");
        assert!(took < Duration::from_secs(5), "{what}: {took:?}");
    }
    assert_eq!(gateway.call("one", "fine", json!({})).await.status, 200, "{what}");
    let breaker = breaker(gateway).await;
    assert_eq!((&breaker["state"], &breaker["failure_count"]), (&json!("closed"), &json!(0)), "{what}");
}

async fn ready(registry: &Registry) -> Running {
    let gateway = Gateway::of(registry).start().await;
    gateway.offers(&["fine", "odd"]).await;
    gateway
}

#[tokio::test]
async fn an_unreadable_result_over_http_fails_one_call_at_once() {
    for (template, hint) in UNREADABLE {
        for as_event in [false, true] {
            let server = odd::http(move |seen| {
                is_odd(seen).then(|| {
                    let body = of(template, &seen.id());
                    if as_event { event(&body) } else { vec![whole(&body)] }
                })
            })
            .await;
            let gateway = ready(&Registry::new().http("one", server.url.as_str())).await;
            fails_alone(&gateway, hint, &format!("{}, event: {as_event}", String::from_utf8_lossy(template)))
                .await;
        }
    }
}

#[tokio::test]
async fn an_unreadable_line_fails_one_call_at_once() {
    for (template, hint) in UNREADABLE {
        let quoted: Vec<String> = of(template, "%s").iter().map(|byte| format!("\\\\{byte:03o}")).collect();
        let quoted = quoted.concat().replace("\\\\045\\\\163", "%s").replace("\\\\", "\\");
        let odd = format!(r#"case "$l" in *'"name":"odd"'*) printf '{quoted}\n' "$id"; continue;; esac"#);
        let registry = odd::script(Registry::new(), "one", "", &odd);
        fails_alone(&ready(&registry).await, hint, &String::from_utf8_lossy(template)).await;
    }
}

#[tokio::test]
async fn a_large_result_that_is_no_json_fails_like_a_small_one() {
    let text = "x".repeat(40_000);
    for (text, hint) in [
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"{text}"}}],"structuredContent":{{"a":NaN}}}}}}"#
            ),
            "NaN at byte ",
        ),
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"a":NaN,"content":[{{"type":"text","text":"{text}"}}]}}}}"#
            ),
            "NaN at byte ",
        ),
        (
            format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"{text}"#),
            "stopped after byte ",
        ),
    ] {
        let server =
            odd::http(move |seen| is_odd(seen).then(|| vec![whole(&of(text.as_bytes(), &seen.id()))])).await;
        let gateway = ready(&Registry::new().http("one", server.url.as_str())).await;
        fails_alone(&gateway, hint, "large").await;
        let session = gateway.mcp().legacy().await;
        let answer = session.call("odd", json!({})).await;
        assert!(format!("{answer:?}").contains("invalid_answer"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_large_result_that_turns_out_to_be_no_json_is_cut_without_a_failure_of_the_server() {
    let server = odd::http(|seen| {
        is_odd(seen).then(|| {
            let begin = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"text","text":"{}"}}],"#,
                seen.id(),
                "x".repeat(40_000)
            );
            let rest = r#""structuredContent":{"a":[NaN]}}}"#;
            let length = begin.len() + rest.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            );
            vec![Step::Say(head + &begin), Step::Wait, Step::Say(rest.into())]
        })
    })
    .await;
    let gateway = ready(&Registry::new().http("one", server.url.as_str())).await;
    for _ in 0..6 {
        server.go.add_permits(1);
        assert_eq!(gateway.call("one", "odd", json!({})).await.json()["code"], "invalid_answer");
    }
    assert_eq!(breaker(&gateway).await["state"], "closed");
}

#[tokio::test]
async fn a_list_with_nan_in_it_leaves_the_server_reachable() {
    let server = odd::http(|seen| {
        (seen.method() == "tools/list").then(|| {
            vec![whole(&of(br#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","x":NaN}}]}}"#, &seen.id()))]
        })
    })
    .await;
    let gateway = Gateway::of(&Registry::new().http("one", server.url.as_str())).start().await;
    let shown = crate::support::eventually("a reason", async || {
        let shown = gateway.get("/servers/one").await.json();
        shown["last_error"].is_string().then_some(shown)
    })
    .await;
    assert!(shown["last_error"].as_str().is_some_and(|error| error.contains("NaN at byte")), "{shown}");
    assert_eq!(breaker(&gateway).await["state"], "closed");
}

#[tokio::test]
async fn text_around_a_response_on_one_line_is_told_to_its_caller() {
    let registry = odd::script(
        Registry::new(),
        "one",
        "",
        r#"case "$l" in *'"name":"odd"'*) printf 'loading {model} '; result '{"content":[]}'; continue;; esac"#,
    );
    fails_alone(&ready(&registry).await, "byte 0", "text before it").await;
}

#[tokio::test]
async fn a_log_line_about_a_response_fails_no_call() {
    for log in [
        r#"printf 'DEBUG sending {"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1""#,
        r#"printf '[12:00:01] <- {"jsonrpc":"2.0","id":%s,"result":%s} (3 ms)\n' "$id" "$1""#,
        r#"printf 'sent {"jsonrpc":"2.0","id":%s,"result":{"content":[{"ty...\n' "$id""#,
        r#"printf '{"level":"debug","id":%s,"result":%s}\n' "$id" "$1""#,
        r#"printf '{"level":30,"id":1,"msg":{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1""#,
    ] {
        let line = r#"printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1""#;
        for both in [format!("{log}; sleep 0.05; {line}"), format!("{line}; {log}; {log}")] {
            let registry = odd::script(Registry::new(), "one", &format!("result() {{ {both}; }}"), "");
            let gateway = ready(&registry).await;
            for _ in 0..5 {
                assert_eq!(gateway.call("one", "fine", json!({})).await.status, 200, "{both}");
            }
            assert_eq!(gateway.get("/servers/one").await.json()["last_error"], Value::Null, "{both}");
        }
    }
}
