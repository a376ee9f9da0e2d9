//! Sockets that another process holds and hands over (`LISTEN_FDS`), as systemd does.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rcgen::CertificateParams;
use serde_json::{Value, json};
use testkit::certificates::CertificateAuthority;

use crate::support::{Gateway, Registry};

/// Runs the Python parent, which replaces the program while clients connect.
fn replaced(gateway: &Gateway, (sockets, tls): (usize, bool)) -> Value {
    let config = gateway.folder().join("mcp_servers.yaml");
    let program = json!([env!("CARGO_BIN_EXE_switchyard"), "serve", "--config", config]);
    let given = json!({"program": program, "sockets": sockets, "replacements": 4, "tls": tls});
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/socket_activation.py");
    let output = Command::new("python3").arg(parent).arg(given.to_string()).output().expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| {
        panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    })
}

fn is_flawless(told: &Value) {
    let counts = told["counts"].as_object().expect("an object");
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["HTTP/1.1 200 OK"], "{told}");
    assert!(counts.values().all(|count| count.as_u64() >= Some(150)), "{told}");
    assert_eq!((&told["inherited"], &told["status"]), (&json!([]), &json!(0)), "{told}");
}

#[test]
fn no_connection_is_refused_while_the_program_is_replaced() {
    let gateway = Gateway::of(&Registry::new().child("child", &[]).with("start: eager"));
    for sockets in [1, 2] {
        let told = replaced(&gateway, (sockets, false));
        is_flawless(&told);
        assert!(told["children"].as_u64() >= Some(1), "a child process was looked at: {told}");
    }
}

#[test]
fn no_connection_is_refused_beside_standard_input() {
    let gateway = Gateway::of(&Registry::new().setting("server: {transport: both}"));
    is_flawless(&replaced(&gateway, (1, false)));
}

#[test]
fn standard_input_alone_leaves_the_sockets_alone_and_says_so() {
    let gateway = Gateway::of(&Registry::new().setting("server: {transport: stdio}"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let ended = started_with(&gateway, listener, "1");
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{text}");
    let told: Vec<&str> = text.lines().filter(|line| line.contains("LISTEN_FDS")).collect();
    assert!(told.len() == 1 && told[0].contains("ignored") && told[0].contains("transport: both"), "{text}");
}

#[test]
fn no_connection_is_refused_with_tls() {
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let (cert, key) = CertificateAuthority::new().signs(&params);
    let setting = "server: {tls: {cert: cert.pem, key: key.pem}}";
    let gateway = Gateway::of(&Registry::new().setting(setting));
    for (name, text) in [("cert.pem", cert), ("key.pem", key)] {
        std::fs::write(gateway.folder().join(name), text).expect("it can be written");
    }
    is_flawless(&replaced(&gateway, (1, true)));
}

/// Starts the program with `given` as descriptor 3, and returns how it ended.
fn started_with(gateway: &Gateway, given: impl Into<OwnedFd>, count: &str) -> Output {
    // A shell is the process that becomes the program, so it knows the process id. Its standard input becomes descriptor 3.
    let script = "exec 3<&0 0</dev/null; export LISTEN_PID=$$; exec \"$0\" serve --config \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_switchyard")]);
    shell.arg(gateway.folder().join("mcp_servers.yaml")).env("LISTEN_FDS", count);
    shell.stdin(Stdio::from(given.into())).output().expect("sh runs")
}

#[test]
fn descriptor_that_is_no_listening_tcp_socket_is_refused_with_its_number() {
    let gateway = Gateway::of(&Registry::new());
    let folder = tempfile::tempdir().expect("a folder");
    let unix = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).expect("a socket");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let connected =
        std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let file = std::fs::File::open("/dev/null").expect("a file");
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for given in
        [OwnedFd::from(unix), OwnedFd::from(connected), OwnedFd::from(file), OwnedFd::from(datagrams)]
    {
        let ended = started_with(&gateway, given, "1");
        let text = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{text}");
        assert!(text.contains("socket 1 of 1 cannot be used") && text.contains("ListenStream="), "{text}");
    }
    for count in ["many", "65", "-1"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
        let ended = started_with(&gateway, OwnedFd::from(listener), count);
        let text = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(2) && text.contains("LISTEN_FDS"), "{count}: {text}");
    }
}

#[test]
fn a_socket_that_others_can_reach_needs_credentials() {
    let gateway = Gateway::of(&Registry::new());
    let listener = std::net::TcpListener::bind("0.0.0.0:0").expect("a socket");
    let ended = started_with(&gateway, OwnedFd::from(listener), "1");
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(2) && text.contains("others can reach this address"), "{text}");
}

#[tokio::test]
async fn sockets_for_another_process_are_left_alone() {
    let gateway = Gateway::of(&Registry::new()).env("LISTEN_FDS", "1").env("LISTEN_PID", "1").start().await;
    let live = gateway.mcp().to(&gateway.url("/health/live"));
    assert_eq!(live.bare(http::Method::GET, &[]).await.status, 200);
}
