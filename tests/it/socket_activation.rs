//! Sockets that another process holds and hands over (`LISTEN_FDS`), as systemd does.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::CertificateParams;
use testkit::certificates::CertificateAuthority;

use crate::support::process::Process;
use crate::support::{Gateway, Registry, eventually};

/// How often the program is replaced, and the clients of each socket. Each client makes one connection after the other.
const REPLACEMENTS: usize = 4;
const CLIENTS: usize = 3;
/// Answers before each replacement, and after the last one.
const ANSWERS: usize = 30;

/// The command line of a shell that becomes the program, so it knows the process id. Its standard input becomes descriptor 3, and
/// its standard output descriptor 4 if there are two sockets.
fn program(gateway: &Gateway, count: &str) -> Command {
    let script = "[ $LISTEN_FDS != 2 ] || exec 4<&1; exec 3<&0 0</dev/null 1>/dev/null; export LISTEN_PID=$$; \
                  exec \"$0\" serve --config \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_switchyard")]);
    shell.arg(gateway.folder().join("mcp_servers.yaml")).env("LISTEN_FDS", count);
    shell
}

/// Starts the program with the sockets, as systemd does.
fn started(gateway: &Gateway, sockets: &[TcpListener]) -> Process {
    let given = |socket: Option<&TcpListener>| {
        socket.map_or_else(Stdio::null, |socket| OwnedFd::from(socket.try_clone().expect("a copy")).into())
    };
    let mut command = program(gateway, &sockets.len().to_string());
    command.stdin(given(sockets.first())).stdout(given(sockets.get(1)));
    Process::start(command)
}

/// Counts the outcomes of requests to `url`, each on a connection of its own, until it is over.
async fn connects(url: String, counts: Arc<Mutex<BTreeMap<String, usize>>>, is_over: Arc<AtomicBool>) {
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).danger_accept_invalid_certs(true);
    let client = client.build().expect("a client");
    while !is_over.load(Ordering::Relaxed) {
        let outcome = match client.get(&url).send().await {
            Ok(answer) => answer.status().to_string(),
            Err(error) => format!("{error:?}"),
        };
        *counts.lock().expect("whole").entry(outcome).or_default() += 1;
    }
}

/// The sockets and variables that child processes of the program have, and the number of these processes. One that has not executed
/// its own program yet is a copy of the program, and has everything.
fn inherited(program: &Process, sockets: &[TcpListener]) -> (usize, Vec<String>) {
    let link = |path: &Path| std::fs::read_link(path).map(|link| link.to_string_lossy().into_owned());
    let own: Vec<String> = sockets
        .iter()
        .map(|socket| {
            link(Path::new(&format!("/proc/self/fd/{}", socket.as_raw_fd()))).expect("a descriptor")
        })
        .collect();
    let parent = format!("PPid:\t{}\n", program.id());
    let (mut children, mut found) = (0, Vec::new());
    for folder in std::fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path()) {
        let is_child =
            std::fs::read_to_string(folder.join("status")).is_ok_and(|text| text.contains(&parent));
        let runs = link(&folder.join("exe")).unwrap_or_default();
        if !is_child || runs == env!("CARGO_BIN_EXE_switchyard") {
            continue;
        }
        children += 1;
        let descriptors = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        found.extend(
            descriptors.filter_map(|entry| link(&entry.path()).ok()).filter(|link| own.contains(link)),
        );
        let variables = std::fs::read_to_string(folder.join("environ")).unwrap_or_default();
        found.extend(variables.split('\0').filter(|text| text.starts_with("LISTEN_")).map(str::to_owned));
    }
    (children, found)
}

/// Replaces the program while clients connect. No connection is refused, and child processes inherit nothing. Returns the largest
/// number of child processes.
#[allow(clippy::disallowed_methods)] // a test's own tasks; they are joined
async fn replaced(gateway: &Gateway, scheme: &str, count: usize) -> usize {
    let sockets: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a socket")).collect();
    let counts = Arc::<Mutex<BTreeMap<String, usize>>>::default();
    let is_over = Arc::<AtomicBool>::default();
    let clients: Vec<_> = sockets
        .iter()
        .flat_map(|socket| [socket.local_addr().expect("an address"); CLIENTS])
        .map(|address| {
            let url = format!("{scheme}://{address}/health/live");
            tokio::spawn(connects(url, Arc::clone(&counts), Arc::clone(&is_over)))
        })
        .collect();
    let answered = || counts.lock().expect("whole").values().sum::<usize>();
    let (mut process, mut children) = (started(gateway, &sockets), 0);
    for replacement in 0..=REPLACEMENTS {
        let before = answered();
        eventually("clients are answered", async || (answered() >= before + ANSWERS).then_some(())).await;
        let (found, of_children) = inherited(&process, &sockets);
        assert!(of_children.is_empty(), "child processes have {of_children:?}");
        children = children.max(found);
        if replacement == REPLACEMENTS {
            is_over.store(true, Ordering::Relaxed);
            futures_util::future::join_all(clients).await;
            process.ask_to_end();
            assert!(process.wait().success(), "{:?}", process.errors());
            break;
        }
        process.ask_to_end();
        process.wait();
        process = started(gateway, &sockets);
    }
    let counts = counts.lock().expect("whole");
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["200 OK"], "{counts:?}");
    children
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_is_refused_while_the_program_is_replaced() {
    let gateway = Gateway::of(&Registry::new().child("child", &[]).with("start: eager"));
    for sockets in [1, 2] {
        assert!(replaced(&gateway, "http", sockets).await >= 1, "a child process was looked at");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_is_refused_beside_standard_input() {
    replaced(&Gateway::of(&Registry::new().setting("server: {transport: both}")), "http", 1).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_is_refused_with_tls() {
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let (cert, key) = CertificateAuthority::new().signs(&params);
    let setting = "server: {tls: {cert: cert.pem, key: key.pem}}";
    let gateway = Gateway::of(&Registry::new().setting(setting));
    for (name, text) in [("cert.pem", cert), ("key.pem", key)] {
        std::fs::write(gateway.folder().join(name), text).expect("it can be written");
    }
    replaced(&gateway, "https", 1).await;
}

/// Starts the program with `given` as descriptor 3, and returns how it ended.
fn started_with(gateway: &Gateway, given: impl Into<OwnedFd>, count: &str) -> Output {
    program(gateway, count).stdin(Stdio::from(given.into())).output().expect("sh runs")
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
