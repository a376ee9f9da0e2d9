//! Servers that do not keep to the specification and that common SDKs work with. They speak older revisions, write ids
//! as text, null members or byte order marks, react oddly to the first request, or ignore `ping`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::scripted::{ReceivedRequest, Step, full, json as answer};

use crate::support::{Gateway, Registry, Running, eventually, odd};

async fn entry(gateway: &Running) -> Value {
    gateway.get("/servers/one").await.json()
}

/// Starts a gateway whose only server must be ready soon, and calls a tool.
async fn works(registry: &Registry, what: &str) -> Running {
    let began = Instant::now();
    let gateway = Gateway::of(registry).start().await;
    let ready = async || (entry(&gateway).await["state"] == "ready").then_some(());
    let waited = tokio::time::timeout(Duration::from_secs(10), eventually(what, ready)).await;
    assert!(waited.is_ok(), "{what}: {}", entry(&gateway).await);
    let called = gateway.call("one", "fine", json!({})).await;
    eprintln!("{what}: ready and called after {:?}", began.elapsed());
    assert_eq!(called.status, 200, "{what}: {called:?}");
    gateway
}

fn over_http(url: &str) -> Registry {
    Registry::new().http("one", url)
}

/// The answer to `seen` printed by `print` from its id and its result.
fn printed(seen: &ReceivedRequest, print: impl Fn(&str, &str) -> String) -> Option<Vec<Step>> {
    odd::usual_result(seen).map(|text| vec![answer(200, &print(&seen.id(), text))])
}

#[tokio::test]
async fn responses_with_null_members_and_ids_as_text_are_read() {
    type Print = fn(&str, &str) -> String;
    let forms: [(&str, Print); 6] = [
        ("error null", |id, result| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result},"error":null}}"#)
        }),
        ("error null first", |id, result| {
            format!(r#"{{"error":null,"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
        }),
        ("all members", |id, result| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":null,"params":null,"result":{result},"error":null}}"#
            )
        }),
        ("id as text", |id, result| format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{result}}}"#)),
        ("id with a fraction", |id, result| format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}.0}}"#)),
        ("byte order mark", |id, result| {
            format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
        }),
    ];
    for (what, print) in forms {
        let server = odd::http(move |seen| printed(seen, print)).await;
        works(&over_http(server.url.as_str()), what).await;
        let server = odd::http(move |seen| {
            let text = print(&seen.id(), odd::usual_result(seen)?);
            Some(vec![full(200, "content-type: text/event-stream\r\n", &format!("data: {text}\n\n"))])
        })
        .await;
        works(&over_http(server.url.as_str()), &format!("{what} as an event")).await;
    }
    for (what, result) in [
        ("error null", r#"printf '{"jsonrpc":"2.0","id":%s,"result":%s,"error":null}\n' "$id" "$1""#),
        ("id as text", r#"printf '{"jsonrpc":"2.0","id":"%s","result":%s}\n' "$id" "$1""#),
        ("mark on each line", r#"printf '\357\273\277{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1""#),
    ] {
        let before = format!("result() {{ {result}; }}");
        works(&odd::script(Registry::new(), "one", &before, ""), what).await;
        let pinned = odd::script(Registry::new(), "one", &before, "").with("era: legacy");
        works(&pinned, &format!("{what}, era: legacy")).await;
    }
}

#[tokio::test]
async fn a_large_result_beside_a_null_error_passes() {
    let server = odd::http(|seen| {
        (seen.method() == "tools/call").then(|| {
            let (id, text) = (seen.id(), "x".repeat(50_000));
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"content":[{{"type":"text","text":"{text}"}}]}},"error":null}}"#
            );
            vec![answer(200, &body)]
        })
    })
    .await;
    let gateway = works(&over_http(server.url.as_str()), "large").await;
    let text = gateway.mcp().legacy().await.call("fine", json!({})).await.text();
    assert_eq!(text.len(), 50_000);
}

#[tokio::test]
async fn an_older_revision_is_requested_when_the_newest_is_refused() {
    let refusals: [(&str, u16, &str); 6] = [
        ("2025-06-18", 200, r#"{"code":-32602,"message":"Unsupported protocol version"}"#),
        ("2025-03-26", 200, r#"{"code":-32600,"message":"Bad Request"}"#),
        (
            "2024-11-05",
            400,
            r#"{"code":-32000,"message":"Bad Request: Unsupported protocol version (supported versions: 2024-11-05)"}"#,
        ),
        (
            "2024-10-07",
            200,
            r#"{"code":-32602,"message":"no","data":{"supported":["2024-10-07"],"requested":"2025-11-25"}}"#,
        ),
        ("2025-03-26", 200, r#"{"code":-32603,"message":"only 2025-03-26 and 2024-11-05 are spoken"}"#),
        ("2025-06-18", 400, ""),
    ];
    for (spoken, status, error) in refusals {
        let server = odd::http(move |seen| {
            let version = format!(r#""protocolVersion":"{spoken}""#);
            match seen.method().as_str() {
                "initialize" if seen.has(&version) => {
                    let result = format!(r#"{{{version},"capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"u","version":"1"}}}}"#);
                    Some(vec![testkit::scripted::result(seen, &result)])
                }
                "initialize" if error.is_empty() => Some(vec![full(status, "", "Unsupported protocol version")]),
                "initialize" => {
                    let body = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, seen.id());
                    Some(vec![answer(status, &body)])
                }
                _ => None,
            }
        })
        .await;
        let gateway =
            works(&over_http(server.url.as_str()), &format!("{spoken} after {status} {error}")).await;
        let shown = if spoken == "2024-10-07" { "2024-11-05" } else { spoken };
        assert_eq!(entry(&gateway).await["protocol_version"], shown, "{error}");
        // The connection for programs declares nothing that only clients can do, and asks for itself.
        let of_lists = |seen: &&ReceivedRequest| seen.method() == "initialize" && seen.has(r#""sampling""#);
        let asked = server.seen().iter().filter(of_lists).count();
        assert!(asked <= 5, "{asked} requests");
        if error.contains(spoken) {
            assert_eq!(asked, 2, "the revision that the server named is next");
        }
    }
    let odd = r#"case "$l" in *'"initialize"'*'2025-11-25'*|*2025-06-18*initialize*) error '{"code":-32602,"message":"no"}'; continue;; esac"#;
    works(&odd::script(Registry::new(), "one", "", odd), "stdio").await;
}

#[tokio::test]
async fn a_first_request_that_ends_badly_is_followed_by_initialize() {
    for (what, step) in [
        ("closed", Step::Close),
        ("reset", Step::Reset),
        ("502", full(502, "", "bad gateway")),
        ("503", full(503, "", "upstream")),
        ("503 with a time", full(503, "retry-after: 1\r\n", "")),
        ("504", full(504, "", "")),
    ] {
        let server =
            odd::http(move |seen| (seen.method() == "server/discover").then(|| vec![step.clone()])).await;
        works(&over_http(server.url.as_str()), what).await;
    }
}

#[tokio::test]
async fn a_program_that_ignores_ping_and_answers_calls_stays_up() {
    let odd = r#"echo "$l" >> "$RECORD"; case "$l" in *'"method":"ping"'*) continue;; esac"#;
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    let registry = odd::script(Registry::new(), "one", "", odd)
        .with(&format!("env: {{RECORD: {record:?}}}"))
        .with("timeout: 2")
        .setting("health_check_interval: 1");
    let gateway = works(&registry, "ignores ping").await;
    for _ in 0..14 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(gateway.call("one", "fine", json!({})).await.status, 200);
        let shown = entry(&gateway).await;
        assert_eq!(shown["state"], "ready", "{shown}");
    }
    let lines = std::fs::read_to_string(&record).expect("a record");
    let count = |part: &str| lines.lines().filter(|line| line.contains(part)).count();
    eprintln!("{} pings were ignored", count(r#""method":"ping""#));
    assert!(count(r#""method":"ping""#) > 1);
    assert_eq!(count(r#""method":"initialize""#), 1, "it was not started again");
}

#[tokio::test]
async fn changes_that_are_announced_after_each_list_reach_nobody_and_are_read_ever_more_rarely() {
    let lists = Arc::new(AtomicUsize::new(0));
    let odd = r#"case "$l" in *'"tools/list"'*) echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';; esac"#;
    let changing = odd.replace("esac", r#"*'"odd"'*) TOOLS_CHANGED=1;; esac"#);
    let registry = odd::script(Registry::new(), "one", "", &changing);
    // Without a call: what comes during one counts as announced by it.
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["odd", "fine"]).await;
    let session = gateway.mcp().legacy().await;
    let mut stream = session.client.listen().await;
    let heard = tokio::time::timeout(Duration::from_secs(5), async {
        while let Some(message) = stream.next().await {
            if message["method"] == "notifications/tools/list_changed" {
                lists.fetch_add(1, Ordering::Relaxed);
            }
        }
    })
    .await;
    assert!(heard.is_err(), "the stream stays open");
    assert_eq!(lists.load(Ordering::Relaxed), 0, "nothing changed");
}

#[tokio::test]
async fn a_client_on_standard_input_may_begin_with_a_byte_order_mark() {
    let server = odd::http(|_| None).await;
    let gateway = Gateway::of(&over_http(server.url.as_str()));
    for (before, between) in
        [("\u{feff}", ""), ("\u{feff}\n", ""), ("\u{feff}", "\u{feff}"), ("\u{feff}\r\n", "\r")]
    {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
        let input =
            format!("{before}{hello}\n{between}{}\n", json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
        let output = gateway.output_with_input(&["stdio"], input.as_bytes());
        let ids: Vec<Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .filter(|message| message.get("result").is_some())
            .map(|message| message["id"].clone())
            .collect();
        let expected = if between == "\r" { 1 } else { 2 };
        assert!(
            ids.len() >= expected && ids.contains(&json!(1)),
            "{before:?} {between:?}: {ids:?} {output:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_first_notification_is_used() {
    for (status, body) in [
        (400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"id is missing"}}"#),
        (404, ""),
        (405, ""),
        (422, r#"{"detail":"id"}"#),
        (500, "no"),
        (501, ""),
    ] {
        let server = odd::http(move |seen| {
            (seen.method() == "notifications/initialized").then(|| vec![full(status, "", body)])
        })
        .await;
        works(&over_http(server.url.as_str()), &format!("{status} {body}")).await;
    }
    let refuses = r#"case "$l" in *notifications/initialized*) id=null; error '{"code":-32600,"message":"id is missing"}'; continue;; esac"#;
    let gateway = works(&odd::script(Registry::new(), "one", "", refuses), "stdio").await;
    assert_eq!(gateway.get("/servers/one").await.json()["last_error"], Value::Null);
    let server =
        odd::http(|seen| (seen.method() == "notifications/initialized").then(|| vec![full(403, "", "")]))
            .await;
    let gateway = Gateway::of(&over_http(server.url.as_str())).start().await;
    let state = eventually("a state", async || {
        let state = entry(&gateway).await["state"].clone();
        (state != "connecting").then_some(state)
    })
    .await;
    assert_eq!(state, "auth_failed", "credentials concern every request");
}

#[tokio::test]
async fn a_server_of_2025_03_26_may_answer_with_a_batch() {
    const LOG: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"begun"}}"#;
    let batch = |seen: &ReceivedRequest| {
        let (id, result) = (seen.id(), odd::usual_result(seen)?);
        Some(format!(r#"[{LOG},{{"jsonrpc":"2.0","id":{id},"result":{result}}}]"#))
    };
    for as_event in [false, true] {
        let server = odd::http(move |seen| {
            let text = batch(seen)?;
            let events = || full(200, "content-type: text/event-stream\r\n", &format!("data: {text}\n\n"));
            Some(vec![if as_event { events() } else { answer(200, &text) }])
        })
        .await;
        let gateway = works(&over_http(server.url.as_str()), &format!("a batch, event: {as_event}")).await;
        let called = gateway.mcp().legacy().await.call("fine", json!({})).await;
        let text = format!("{called:?}");
        assert!(text.contains("begun") && text.contains("hi"), "{text}");
    }
    let before =
        format!(r#"result() {{ printf '[{LOG},{{"jsonrpc":"2.0","id":%s,"result":%s}}]\n' "$id" "$1"; }}"#);
    works(&odd::script(Registry::new(), "one", &before, ""), "stdio").await;
}

#[tokio::test]
async fn a_batch_without_the_answer_fails_its_call() {
    for body in [
        "[]".to_owned(),
        r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#.into(),
        r#"[{"jsonrpc":"2.0","id":987,"result":{}}]"#.into(),
        format!("[{}1]", "1,".repeat(2_000)),
    ] {
        let text = body.clone();
        let server = odd::http(move |seen| {
            (seen.method() == "tools/call" && seen.has("odd")).then(|| vec![answer(200, &text)])
        })
        .await;
        let gateway = works(&over_http(server.url.as_str()), "usual").await;
        let failed = gateway.call("one", "odd", json!({})).await;
        assert_eq!((failed.status, &failed.json()["code"]), (502, &json!("invalid_answer")), "{body:.80}");
    }
}

#[tokio::test]
async fn a_server_that_declares_nothing_is_named() {
    let server = odd::http(|seen| {
        (seen.method() == "initialize").then(|| {
            let result = r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"u","version":"1"}}"#;
            vec![testkit::scripted::result(seen, result)]
        })
    })
    .await;
    let gateway = Gateway::of(&over_http(server.url.as_str())).start().await;
    eventually("ready", async || (entry(&gateway).await["state"] == "ready").then_some(())).await;
    let shown = entry(&gateway).await;
    assert!(shown["offer_problems"].to_string().contains("declares no tools"), "{shown}");
}

#[tokio::test]
async fn headers_that_common_clients_accept_are_accepted() {
    for header in [
        "content-encoding: none",
        "content-encoding: UTF-8",
        "content-encoding: aws-chunked",
        "content-security-policy: default-src 'self';\r\n  img-src *",
    ] {
        let server = odd::http(move |seen| {
            let (id, result) = (seen.id(), odd::usual_result(seen)?);
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            Some(vec![full(200, &format!("content-type: application/json\r\n{header}\r\n"), &body)])
        })
        .await;
        works(&over_http(server.url.as_str()), header).await;
    }
}

#[tokio::test]
async fn an_error_of_any_form_reaches_its_caller() {
    for (error, code, says) in [
        (r#""out of paper""#, -32603, "out of paper"),
        (r#"{"code":"E_PAPER","message":"out of paper"}"#, -32603, "out of paper"),
        (r#"{"message":"out of paper"}"#, -32603, "out of paper"),
        (r#"{"code":-32000.0,"message":"out of paper"}"#, -32000, "out of paper"),
        (r#"{"code":"-32000","message":"out of paper"}"#, -32000, "out of paper"),
        (r#"{"code":-32000}"#, -32000, "-32000"),
        (r#"{"code":-32000,"message":null}"#, -32000, "-32000"),
        (r#"{"code":-32000,"message":{"text":"out of paper"}}"#, -32000, "out of paper"),
        (r#"["out of paper"]"#, -32603, "out of paper"),
    ] {
        let server = odd::http(move |seen| {
            let is_odd = seen.method() == "tools/call" && seen.has("odd");
            is_odd.then(|| {
                vec![answer(200, &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, seen.id()))]
            })
        })
        .await;
        let gateway = works(&over_http(server.url.as_str()), error).await;
        let over_rest = gateway.call("one", "odd", json!({})).await;
        let told = over_rest.json();
        assert_eq!((over_rest.status, &told["code"]), (200, &json!("rpc_error")), "{error}: {told}");
        assert!(told["error"].as_str().is_some_and(|text| text.contains(says)), "{error}: {told}");
        let legacy = gateway.mcp().legacy().await.call("odd", json!({})).await;
        for answer in [legacy, gateway.mcp().call("odd", json!({})).await] {
            let told = answer.error();
            assert_eq!(told["code"], code, "{error}: {told}");
            assert!(told["message"].as_str().is_some_and(|text| text.contains(says)), "{error}: {told}");
        }
        if code == -32603 && error.starts_with('{') {
            assert_eq!(told["rpc_error"]["data"], serde_json::from_str::<Value>(error).expect("JSON"));
        }
    }
}

#[tokio::test]
async fn a_result_that_is_no_object_is_told_to_every_client() {
    for result in ["null", "\"done\"", "[1]", "7", "false"] {
        let server = odd::http(move |seen| {
            let is_odd = seen.method() == "tools/call" && seen.has("odd");
            is_odd.then(|| vec![testkit::scripted::result(seen, result)])
        })
        .await;
        let gateway = works(&over_http(server.url.as_str()), result).await;
        let legacy = gateway.mcp().legacy().await.call("odd", json!({})).await;
        for answer in [legacy, gateway.mcp().call("odd", json!({})).await] {
            assert_eq!(answer.error()["data"]["code"], "invalid_answer", "{result}: {answer:?}");
        }
        assert_eq!(gateway.call("one", "odd", json!({})).await.json()["code"], "invalid_answer", "{result}");
    }
}

#[tokio::test]
async fn content_that_is_no_list_is_not_lost_over_rest() {
    for (content, data) in [
        (r#""hello""#, json!("hello")),
        (r#"{"type":"text","text":"hello"}"#, json!("hello")),
        (r#"["hello"]"#, json!("hello")),
        (r#""{\"a\":1}""#, json!({"a": 1})),
        ("null", Value::Null),
        ("7", Value::Null),
    ] {
        let server = odd::http(move |seen| {
            let is_odd = seen.method() == "tools/call" && seen.has("odd");
            is_odd.then(|| vec![testkit::scripted::result(seen, &format!(r#"{{"content":{content}}}"#))])
        })
        .await;
        let gateway = works(&over_http(server.url.as_str()), content).await;
        let called = gateway.call("one", "odd", json!({})).await.json();
        assert_eq!((&called["success"], &called["data"]), (&json!(true), &data), "{content}: {called}");
    }
}

#[tokio::test]
async fn a_list_that_is_null_or_missing_counts_as_empty_and_its_server_as_usable() {
    const BOTH: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},
        "serverInfo":{"name":"odd","version":"1"}}"#;
    const TOOLS: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},
        "serverInfo":{"name":"odd","version":"1"}}"#;
    const PROMPTS: &str = r#"{"prompts":[{"name":"p"}]}"#;
    for (initialized, tools, prompts, counts) in [
        (BOTH, r#"{"tools":null}"#, PROMPTS, [0, 1]),
        (BOTH, "{}", PROMPTS, [0, 1]),
        (BOTH, "", r#"{"prompts":null}"#, [2, 0]),
        (TOOLS, r#"{"tools":null}"#, "", [0, 0]),
        (TOOLS, "{}", "", [0, 0]),
    ] {
        let server = odd::http(move |seen| {
            let text = match seen.method().as_str() {
                "initialize" => initialized,
                "tools/list" => tools,
                "prompts/list" => prompts,
                _ => return None,
            };
            (!text.is_empty()).then(|| vec![testkit::scripted::result(seen, text)])
        })
        .await;
        let gateway = Gateway::of(&over_http(server.url.as_str())).start().await;
        let status = eventually(&format!("ready with {tools} and {prompts}"), async || {
            let entry = entry(&gateway).await;
            (entry["state"] == "ready" && entry["offer_problems"].is_array()).then_some(entry)
        })
        .await;
        let listed = ["tool_count", "prompt_count"].map(|count| status[count].as_u64().unwrap_or_default());
        let problems = status["offer_problems"].to_string();
        assert!(listed == counts && problems.contains("counts as empty"), "{tools} {prompts}: {status}");
    }
}
