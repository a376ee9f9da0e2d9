//! Servers that answer as the specification asks, apart from what a test changes, over HTTP and as a shell script.

use testkit::scripted::{ReceivedRequest, Step, TestServer, full, json, result};

use super::{Gateway, Registry, Running, eventually};

const INITIALIZED: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}"#;
const TOOLS: &str = r#"{"tools":[{"name":"odd","inputSchema":{"type":"object"}},{"name":"fine","inputSchema":{"type":"object"}}]}"#;
const TEXT: &str = r#"{"content":[{"type":"text","text":"hi"}]}"#;

/// A legacy server over HTTP, without sessions unless `odd` gives them. `odd` may answer a request first.
pub async fn http(odd: impl Fn(&ReceivedRequest) -> Option<Vec<Step>> + Send + Sync + 'static) -> TestServer {
    TestServer::new(move |seen| odd(seen).unwrap_or_else(|| vec![usual(seen)])).await
}

/// The usual answer.
pub fn usual(seen: &ReceivedRequest) -> Step {
    match usual_result(seen) {
        Some(text) => result(seen, text),
        None if seen.line.starts_with("GET") => json(405, ""),
        None if seen.id() == "null" => json(202, ""),
        None => {
            let id = seen.id();
            json(200, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no"}}}}"#))
        }
    }
}

/// The result of the usual answer; `None` where it has none.
pub fn usual_result(seen: &ReceivedRequest) -> Option<&'static str> {
    Some(match seen.method().as_str() {
        "initialize" => INITIALIZED,
        "ping" => "{}",
        "tools/list" => TOOLS,
        "tools/call" => TEXT,
        _ => return None,
    })
}

/// The answer to `initialize` with the result `initialized`, which opens `session`.
pub fn opened(seen: &ReceivedRequest, session: &str, initialized: &str) -> Step {
    let headers = format!("content-type: application/json\r\nmcp-session-id: {session}\r\n");
    full(200, &headers, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{initialized}}}"#, seen.id()))
}

/// Starts a gateway with the server `one`, which no health check disturbs. Returns once its usual tools can be called.
pub async fn ready(registry: &Registry) -> Running {
    let gateway = Gateway::of(&registry.clone().setting("health_check_interval: 3600")).start().await;
    gateway.offers(&["fine", "odd"]).await;
    eventually("it is ready", async || {
        (gateway.get("/servers/one").await.json()["state"] == "ready").then_some(())
    })
    .await;
    gateway
}

/// Adds a legacy server that is a shell script. For each line, `odd` runs before the usual answer, with the line in `$l`
/// and the id in `$id`; `continue` there ends the turn. `before` runs once.
pub fn script(registry: Registry, name: &str, before: &str, odd: &str) -> Registry {
    let script = format!(
        r#"
        result() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
        error() {{ printf '{{"jsonrpc":"2.0","id":%s,"error":%s}}\n' "$id" "$1"; }}
        {before}
        while IFS= read -r l; do
            id=${{l#*'"id":'}}; id=${{id%%,*}}
            {odd}
            case "$l" in
            *'"method":"initialize"'*) result '{INITIALIZED}';;
            *'"method":"ping"'*) result '{{}}';;
            *'"method":"tools/list"'*) result '{TOOLS}';;
            *'"method":"tools/call"'*) result '{TEXT}';;
            *'"method":"notifications/'*) ;;
            *) error '{{"code":-32601,"message":"no"}}';;
            esac
        done
        "#
    );
    // `$$` is one dollar sign in the configuration file.
    registry.command(name, "sh", &["-c", &script.replace('$', "$$")])
}
