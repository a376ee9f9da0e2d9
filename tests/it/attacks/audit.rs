//! The audit log: running calls that take all its room, lines that vanish, and outcomes that a server makes up.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::line::{Line, LineAnswer};
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, Running, api_keys, eventually};

const GREEDY: &str = "swy_greedy_0123456789abcdef0123456789abcdef0123456789abcdef";
const OTHER: &str = "swy_other_fedcba9876543210fedcba9876543210fedcba9876543210";
const OPS: &str = "swy_ops_00112233445566778899aabbccddeeff0011223344556677";
const CALL: &str = "/api/v1/mcp/call";
/// Calls are audited.
const FILTER: &str = "warn,switchyard=info,switchyard::audit=debug";
/// Calls of one caller at a hung server: more than three quarters of the waiting audit lines.
const HUNG: usize = 3_100;
const TRIES: usize = 10;

fn keys() -> String {
    let keys = api_keys(&[(GREEDY, "role: caller"), (OTHER, "role: caller"), (OPS, "role: superuser")]);
    format!("server: {{{keys}, max_sockets: 8000}}\ndefault_timeout: 60")
}

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

async fn post(gateway: &Running, key: &str, path: &str, body: &Value) -> LineAnswer {
    let body = body.to_string().into_bytes();
    Line::to(&gateway.address).post(path, &[("authorization", &bearer(key))], &body).await
}

/// Sends a call of `hang` and leaves its answer unread.
async fn hang(address: &str) -> TcpStream {
    let body = r#"{"server":"bad","tool":"hang","arguments":{}}"#;
    let request = format!(
        "POST {CALL} HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        bearer(GREEDY),
        body.len()
    );
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    socket.write_all(request.as_bytes()).await.expect("it reads");
    socket
}

fn is_about_change(line: &Value) -> bool {
    line["message"].as_str().is_some_and(|text| text.starts_with("a tool's definition is not"))
}

/// The calls of one caller at a hung server refuse no other caller, and hide no changed tool.
#[tokio::test]
async fn running_calls_of_one_caller_take_no_audit_room_of_others() {
    let bad = Scripted::modern().tool(Tool::named("hang").does(Act::Hang)).start();
    let good = Scripted::modern().tool(Tool::defined(
        "fine",
        r#"{"name":"fine","description":"one","inputSchema":{"type":"object"}}"#,
    ));
    let good = good.start();
    let registry = Registry::new().setting(&keys()).http("bad", &bad.url());
    let registry =
        registry.with("limits: {concurrent_calls: 1, waiting_calls: 4000}").http("good", &good.url());
    let gateway = Gateway::of(&registry).env("SWITCHYARD_LOG", FILTER).start().await;
    gateway.offers_to("hang", &bearer(GREEDY)).await;
    gateway.offers_to("fine", &bearer(GREEDY)).await;
    let mut hung = Vec::new();
    for _ in 0..HUNG {
        hung.push(hang(&gateway.address).await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut refused = 0;
    for _ in 0..TRIES {
        let told = post(&gateway, OTHER, CALL, &json!({"server": "good", "tool": "fine"})).await;
        refused += usize::from(told.status != 200);
    }
    good.change_tools(vec![Tool::defined(
        "fine",
        r#"{"name":"fine","description":"two","inputSchema":{"type":"object"}}"#,
    )]);
    let told = post(&gateway, OPS, "/api/v1/mcp/servers/good/reconnect", &json!({})).await;
    assert_eq!(told.status, 200, "{told:?}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let changes = gateway.log().iter().filter(|line| is_about_change(line)).count();
    eprintln!(
        "{HUNG} hung calls: {refused} of {TRIES} calls of others refused, {changes} lines of 1 changed tool"
    );
    assert_eq!((refused, changes), (0, 1));
    drop(hung);
}

/// A server chooses the `data` of its errors, and so not the outcome in the audit log.
#[tokio::test]
async fn a_server_chooses_no_outcome() {
    let forged = ["done", "forbidden", "unfinished", "circuit_open"];
    let mut server = Scripted::modern();
    for code in forged {
        let error = json!({"code": -32050, "message": "no", "data": {"code": code}}).to_string();
        server = server.tool(Tool::named(code).does(Act::Error(error)));
    }
    let server = server.start();
    let registry = Registry::new().http("one", &server.url());
    let gateway = Gateway::of(&registry).env("SWITCHYARD_LOG", FILTER).start().await;
    gateway.offers(&forged).await;
    for tool in forged {
        gateway.call("one", tool, json!({})).await;
        gateway.mcp().call(tool, json!({})).await;
    }
    let outcomes = eventually("all calls are logged", async || {
        let calls: Vec<_> =
            gateway.log().iter().filter(|line| line["message"] == "called").cloned().collect();
        (calls.len() >= 2 * forged.len()).then_some(calls)
    });
    let outcomes: Vec<Value> = outcomes.await.iter().map(|line| line["outcome"].clone()).collect();
    eprintln!("outcomes of forged errors: {outcomes:?}");
    assert!(outcomes.iter().all(|outcome| outcome == "-32050"), "{outcomes:?}");
}
