//! `/metrics`: calls by tool and by client, refused requests, the process; quantiles in the list of servers.

use flate2::read::GzDecoder;
use http::Method;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, Running};

const ERROR: &str = r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#;

const KEY: &str = "swy_reader_0123456789abcdef0123456789abcdef0123456789abcdef";

async fn started(settings: &str) -> (Running, Server) {
    let hash = hex::encode(Sha256::digest(KEY.as_bytes()));
    let server = Scripted::modern()
        .tool(Tool::named("works"))
        .tool(
            Tool::named("fails")
                .does(Act::Result(ERROR.into()))
                .does(Act::Error(r#"{"code":-32050,"message":"out of order"}"#.into())),
        )
        .start();
    let registry = Registry::new().http("one", &server.url()).setting(settings);
    let gateway = Gateway::of(&registry).env("HASH", &hash).start().await;
    (gateway, server)
}

async fn text(gateway: &Running, headers: &[(&str, &str)]) -> String {
    let answer = Client::at(&gateway.url("/metrics")).bare(Method::GET, headers).await;
    assert_eq!((answer.status, answer.headers["vary"].to_str().ok()), (200, Some("accept-encoding")));
    assert!(!answer.headers.contains_key("content-encoding"), "nobody asked for it");
    answer.body
}

/// The value of the one sample that begins with `start`.
fn sample(text: &str, start: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(start)?.trim().parse().ok())
}

#[tokio::test]
async fn calls_are_counted_by_tool_and_by_client_on_every_way_in() {
    let (gateway, _server) = started("cache: {}").await;
    gateway.offers(&["works", "fails"]).await;
    gateway.mcp().call("works", json!({})).await;
    gateway.mcp().legacy().await.call("works", json!({})).await;
    gateway.mcp().call("fails", json!({})).await;
    gateway.call("one", "fails", json!({})).await;
    gateway.mcp_of("one").call("not-in-a-list", json!({})).await;
    let text = text(&gateway, &[]).await;
    let tool = |tool: &str, outcome: &str| {
        let labels = format!("{{server=\"one\",tool=\"{tool}\",outcome=\"{outcome}\"}}");
        sample(&text, &format!("switchyard_tool_call_duration_seconds_count{labels}"))
    };
    let counts = [tool("works", "result"), tool("fails", "tool_error"), tool("fails", "rpc_error")];
    assert_eq!(counts, [Some(2.0), Some(1.0), Some(1.0)], "{text}");
    assert!(!text.contains("not-in-a-list") && !text.contains("tool=\"other\""), "{text}");
    let client = |name: &str| sample(&text, &format!("switchyard_client_calls_total{{client=\"{name}\"}}"));
    assert_eq!(
        (client("switchyard-tests"), client("rest"), client("other")),
        (Some(4.0), Some(1.0), Some(0.0))
    );
    let server = gateway.get("/servers/one").await.json();
    let recent = |member: &str| server["recent_calls"][member].as_f64().expect("calls were made");
    assert!(recent("count") >= 4.0, "{server}");
    assert!(recent("p50_ms") <= recent("p95_ms") && recent("p95_ms") <= recent("p99_ms"), "{server}");
}

#[tokio::test]
async fn names_of_tools_and_clients_are_left_out_where_the_file_says_so() {
    let (gateway, _server) = started("metrics_by_name: false").await;
    gateway.offers(&["works"]).await;
    gateway.mcp().call("works", json!({})).await;
    let without = text(&gateway, &[]).await;
    assert!(without.contains("switchyard_server_calls_total{server=\"one\"} 1"), "{without}");
    assert!(!without.contains("works") && !without.contains("switchyard-tests"), "{without}");
}

#[tokio::test]
async fn refused_requests_and_the_process_are_counted_and_the_text_is_compressed_on_request() {
    let auth =
        "server:\n  auth_mode: api_key\n  api_keys: [{id: reader, role: reader, hash: \"sha256:${HASH}\"}]";
    let (gateway, _server) = started(auth).await;
    let bearer = &format!("Bearer {KEY}");
    let metrics = Client::at(&gateway.url("/metrics"));
    for _ in 0..3 {
        assert_eq!(metrics.bare(Method::GET, &[]).await.status, 401);
    }
    let credential = [("authorization", &**bearer)];
    let disable = Client::at(&gateway.url("/api/v1/mcp/servers/one/disable"));
    let refused = disable.bare(Method::POST, &credential).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    let plain = text(&gateway, &credential).await;
    let refused = [401, 403, 429]
        .map(|status| sample(&plain, &format!("switchyard_requests_refused_total{{status=\"{status}\"}}")));
    assert_eq!(refused, [Some(3.0), Some(1.0), Some(0.0)], "{plain}");
    if cfg!(target_os = "linux") {
        let resident = sample(&plain, "process_resident_memory_bytes").expect("Linux");
        assert!(resident > 4e6 && sample(&plain, "process_start_time_seconds") > Some(1.7e9), "{plain}");
    }
    let compressed = reqwest::Client::new()
        .get(gateway.url("/metrics"))
        .header("authorization", &**bearer)
        .header("accept-encoding", "gzip")
        .send()
        .await
        .expect("an answer");
    assert_eq!(compressed.headers()["content-encoding"], "gzip");
    let bytes = compressed.bytes().await.expect("a body");
    let mut unpacked = String::new();
    std::io::Read::read_to_string(&mut GzDecoder::new(&bytes[..]), &mut unpacked).expect("gzip");
    assert!(unpacked.ends_with("# EOF\n") && bytes.len() * 3 < unpacked.len(), "{} bytes", bytes.len());
}
