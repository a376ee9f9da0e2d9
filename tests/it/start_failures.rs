//! Reasons why a server could not be started or reached, for operators and callers.
//!
//! It covers the end of a program's standard error, and advice for common mistakes in the configuration file.

use std::io::Write as _;
use std::net::TcpListener;

use serde_json::json;

use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry, eventually};

/// Ends with a stack trace: the line that names the failure is followed by six frames.
const TRACE: &str = "echo 'Starting with canary-of-the-token' >&2; \
    echo \"Error: Cannot find module 'left-pad' for $$T\" >&2; \
    for frame in 1 2 3 4 5 6; do echo \"    at frame $$frame\" >&2; done; exit 3";

fn crashing() -> Registry {
    Registry::new().command("crashes", "sh", &["-c", TRACE]).with("env: {T: canary-of-the-token}")
}

fn check(yaml: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Gateway::with_config(yaml).env("HTTPS_PROXY", "http://proxy:3128").output(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stderr) + &text(&output.stdout))
}

#[track_caller]
fn explains(text: &str) {
    for part in ["exited with status 3", "Cannot find module", "frame 5", "frame 6", "***"] {
        assert!(text.contains(part), "{part:?} is missing: {text}");
    }
    assert!(!text.contains("canary"), "a secret shows: {text}");
}

// Issue 18, item 12: before, `last_error` had one line, the call and `check --connect` had none.
#[tokio::test]
async fn the_end_of_standard_error_is_in_health_in_last_error_and_in_the_failing_call() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&crashing().http("fine", &server.url())).start().await;
    let call = gateway.call("crashes", "a", json!({})).await;
    let told = eventually("health knows the reason", async || {
        let health = gateway.get("/health").await.json().to_string();
        health.contains("exited with status 3").then_some(health)
    })
    .await;
    eprintln!("call: {}\nhealth: {told}", call.json());
    explains(&told);
    explains(&gateway.get("/servers").await.json().to_string());
    let lines = call.json().to_string().matches("frame").count();
    eprintln!("{lines} frames in the failing call");
    explains(&call.json().to_string());
}

#[test]
fn check_names_the_end_of_standard_error_and_no_secret() {
    let (code, told) = check(&crashing().yaml(), &["check", "--connect", "mcp_servers.yaml"]);
    eprintln!("{told}");
    assert_eq!(code, Some(1));
    explains(&told);
}

#[test]
fn a_program_without_network_is_told_of_the_proxy_variable() {
    let offline = "echo 'npm error code ENOTFOUND' >&2; exit 1";
    let one_string = Registry::new()
        .command("offline", "sh", &["-c", offline])
        .server("joined", &["command: npx -y @scope/server".to_owned()]);
    let (_, told) = check(&one_string.yaml(), &["check", "--connect", "mcp_servers.yaml"]);
    eprintln!("{told}");
    assert!(told.contains("add `pass_env: [HTTPS_PROXY]`"), "{told}");
    assert!(told.contains("put the rest into `args`"), "{told}");
}

#[test]
fn a_file_that_does_not_exist_is_refused_with_the_ways_to_one() {
    let (code, told) = check("", &["serve", "--config", "no/such.yaml"]);
    eprintln!("{told}");
    assert_eq!(code, Some(2));
    for part in ["--config", "SWITCHYARD_CONFIG", "switchyard import", "Looked for /", "/no/such.yaml"] {
        assert!(told.contains(part), "{part:?} is missing: {told}");
    }
}

#[test]
fn words_of_other_programs_are_refused_with_ours() {
    let url = "url: http://127.0.0.1:1/mcp";
    for (yaml, hint) in [
        (format!("mcp_servers: {{a: {{type: sse, {url}}}}}"), "transport: http`, `sse`"),
        (format!("mcp_servers: {{a: {{disabled: true, {url}}}}}"), "`enabled: false`"),
        (format!("mcp_servers: {{a: {{transport: streamable-http, {url}}}}}"), "write `http`"),
        ("mcp_servers: {a: {serverUrl: http://a}}".to_owned(), "write `url:`"),
        ("mcp_servers: {a: {httpUrl: http://a}}".to_owned(), "write `url:`"),
        (format!("mcpServers: {{a: {{{url}}}}}"), "did you mean `mcp_servers`?"),
        ("mcp_servers: {a: {command: x, args: [a $5]}}".to_owned(), "`$$5`"),
    ] {
        let (code, told) = check(&yaml, &["check", "mcp_servers.yaml"]);
        eprintln!("{told}");
        assert_eq!(code, Some(2), "{yaml}");
        assert!(told.contains(hint), "{hint:?} is missing: {told}");
    }
}

/// A server that answers every connection with these bytes.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for socket in listener.incoming().take(20).flatten() {
            let (mut socket, mut request) = (socket, [0; 4096]);
            let _ = std::io::Read::read(&mut socket, &mut request);
            let _ = socket.write_all(answer.as_bytes());
        }
    });
    address.to_string()
}

#[test]
fn a_server_that_cannot_be_reached_comes_with_what_to_do() {
    let challenge = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"kb\"\r\n\
                     Content-Length: 0\r\nConnection: close\r\n\r\n";
    let misdirected = "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let plain = answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let tls = answering("\u{15}\u{3}\u{3}\u{0}\u{2}\u{2}(");
    for (url, expected) in [
        (format!("http://{}/mcp", answering(challenge)), "WWW-Authenticate: Bearer realm="),
        (format!("http://{}/mcp", answering(challenge)), "`auth: oauth`"),
        (format!("http://{}/mcp", answering(misdirected)), "`headers: {Host: localhost:PORT}`"),
        (format!("https://{plain}/mcp"), "write `http://`"),
        (format!("http://{tls}/mcp"), "write `https://`"),
        ("http://127.0.0.1:1/mcp".to_owned(), "HTTPS_PROXY is set, but"),
    ] {
        let yaml = Registry::new().http("one", &url).with("timeout: 2").yaml();
        let (code, told) = check(&yaml, &["check", "--connect", "mcp_servers.yaml"]);
        eprintln!("{told}");
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(expected), "{expected:?} is missing: {told}");
    }
}
