//! Tests of the accept loop on real sockets, with short limits.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::routing::{get, post};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;
use crate::Config;
use crate::guard::Guard;
use crate::http_service::HttpService;
use runtime::worker::{now, until};

#[path = "listener_full_tests.rs"]
mod full;

/// The longest wait of a test: far more than any limit set here.
const WAIT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_mins(1);

const fn limits() -> Limits {
    Limits {
        max_sockets: 100,
        header_timeout: LONG,
        body_timeout: LONG,
        idle_timeout: LONG,
        write_timeout: LONG,
        drain_timeout: LONG,
    }
}

struct Served {
    at: SocketAddr,
    shutdown: Shutdown,
    done: oneshot::Receiver<()>,
}

async fn served(router: Router, limits: Limits) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address");
    let (shutdown, (signal, done)) = (Shutdown::new(), oneshot::channel());
    let serving = serve(listener, router, limits, shutdown.clone());
    Shutdown::new().spawn(async move {
        serving.await;
        let _ = signal.send(());
    });
    Served { at, shutdown, done }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.expect("connects")
    }

    /// Starts shutdown, and returns how long it took.
    async fn end(self) -> Duration {
        let start = Instant::now();
        self.shutdown.begin();
        within(self.done).await.expect("serve returns");
        start.elapsed()
    }
}

async fn within<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(WAIT, what).await.expect("in time")
}

fn routes() -> Router {
    let guard = Guard::new(&Config::default()).expect("no key files");
    HttpService::new(
        guard,
        Router::new().route("/", get(|| async { "hello" })).route("/", post(|body: Bytes| async { body })),
    )
    .into_router()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

async fn send(socket: &mut TcpStream, bytes: &[u8]) {
    socket.write_all(bytes).await.expect("sent");
}

/// Reads until the server closes; a reset counts as the end too.
async fn rest(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = within(socket.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads one answer to [`GET`].
async fn answer(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"hello") {
        let read = within(socket.read_buf(&mut bytes)).await.expect("an answer");
        assert_ne!(read, 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
    }
    String::from_utf8(bytes).expect("text")
}

#[tokio::test]
async fn a_body_whose_pieces_came_at_once_is_read_to_its_end() {
    let served = served(routes(), limits()).await;
    let mut socket = served.connect().await;
    send(&mut socket, b"POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n").await;
    let pieces = "1\r\nx\r\n".repeat(50);
    send(&mut socket, format!("transfer-encoding: chunked\r\n\r\n{pieces}0\r\n\r\n").as_bytes()).await;
    assert!(rest(&mut socket).await.ends_with(&"x".repeat(50)));
}

#[tokio::test]
async fn peers_that_say_nothing_or_too_slowly_are_closed() {
    let served = served(routes(), Limits { header_timeout: SHORT, ..limits() }).await;
    for beginning in [&b""[..], b"G", b"GET / HTTP/1.1\r\nhost: localhost\r\nx:"] {
        let mut socket = served.connect().await;
        let start = Instant::now();
        send(&mut socket, beginning).await;
        let text = rest(&mut socket).await;
        assert!(!text.contains("200"), "{text}");
        assert!((SHORT / 2..SHORT * 10).contains(&start.elapsed()), "{beginning:?}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_byte_now_and_then_wins_no_time() {
    let served = served(routes(), Limits { header_timeout: SHORT, ..limits() }).await;
    let (mut reading, mut writing) = served.connect().await.into_split();
    let start = Instant::now();
    let drip = async {
        let mut pace = tokio::time::interval(SHORT / 20);
        while writing.write_all(b"x").await.is_ok() {
            pace.tick().await;
        }
    };
    let mut bytes = Vec::new();
    let closed = async {
        let _ = reading.read_to_end(&mut bytes).await;
    };
    within(async {
        tokio::select! { () = drip => {}, () = closed => {} }
    })
    .await;
    assert!((SHORT / 2..SHORT * 10).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_idle_connection_lives_longer_than_a_slow_head() {
    let served =
        served(routes(), Limits { header_timeout: SHORT, idle_timeout: SHORT * 4, ..limits() }).await;
    let mut socket = served.connect().await;
    send(&mut socket, GET).await;
    answer(&mut socket).await;
    let start = Instant::now();
    assert_eq!(rest(&mut socket).await, "");
    assert!(start.elapsed() > SHORT * 3, "idle: {:?}", start.elapsed());
    let mut socket = served.connect().await;
    send(&mut socket, GET).await;
    answer(&mut socket).await;
    let start = Instant::now();
    send(&mut socket, b"GET / HT").await;
    assert!(!rest(&mut socket).await.contains("200"));
    assert!(start.elapsed() < SHORT * 3, "a head that does not end: {:?}", start.elapsed());
}

#[tokio::test]
async fn handler_that_waits_is_woken_in_time() {
    let served = served(Router::new().route("/", get(|| until(now() + SHORT))), limits()).await;
    let mut socket = served.connect().await;
    send(&mut socket, GET).await;
    assert_eq!(within(socket.read_u8()).await.expect("an answer"), b'H');
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_and_closed() {
    let served = served(routes(), Limits { body_timeout: SHORT, ..limits() }).await;
    let mut socket = served.connect().await;
    send(&mut socket, b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n12345").await;
    let text = rest(&mut socket).await;
    assert!(text.starts_with("HTTP/1.1 408 ") && text.contains("\"code\":\"body_timeout\""), "{text}");
}

#[tokio::test]
async fn a_client_that_sends_too_much_gets_to_read_why() {
    let served = served(routes(), limits()).await;
    let mut socket = served.connect().await;
    let length = Config::default().max_body_bytes + 100_000;
    send(
        &mut socket,
        format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n").as_bytes(),
    )
    .await;
    send(&mut socket, &vec![b'x'; Config::default().max_body_bytes]).await;
    let text = rest(&mut socket).await;
    assert!(text.starts_with("HTTP/1.1 413 ") && text.contains("\"code\":\"body_too_large\""), "{text}");
    let mut socket = served.connect().await;
    send(
        &mut socket,
        format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(200_000)).as_bytes(),
    )
    .await;
    assert!(rest(&mut socket).await.starts_with("HTTP/1.1 431 "));
}

/// An endless body that reports when it is dropped. Shutdown ends it if it watches one.
fn stream(watches: Option<Shutdown>) -> (Body, oneshot::Receiver<()>) {
    let (held, dropped) = oneshot::channel::<()>();
    let pieces = futures_util::stream::unfold((held, watches), |(held, watches)| async move {
        if let Some(shutdown) = &watches {
            shutdown.requested().await;
            return None;
        }
        Some((Ok::<_, Infallible>(Bytes::from(vec![b'x'; 65_536])), (held, watches)))
    });
    (Body::from_stream(pieces), dropped)
}

/// A route that gives `body` to the first request.
fn once(body: Body) -> Router {
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let take = move || {
        let body = body.lock().expect("not poisoned").take();
        async { body.unwrap_or_default() }
    };
    Router::new().route("/", get(take))
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_closed() {
    let (body, dropped) = stream(None);
    let served = served(once(body), Limits { write_timeout: SHORT, ..limits() }).await;
    let mut socket = served.connect().await;
    send(&mut socket, GET).await;
    let _ = within(dropped).await;
}

#[tokio::test]
async fn an_end_waits_for_requests_and_for_streams_that_watch_it() {
    let group = Shutdown::new();
    let (body, _dropped) = stream(Some(group.clone()));
    let ((release, wait), (started, has_started)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
    let ends = Arc::new(std::sync::Mutex::new(Some((started, wait))));
    let slow = move || {
        let (started, wait) = ends.lock().expect("not poisoned").take().expect("asked once");
        async {
            started.send(()).expect("somebody waits");
            wait.await.map_or("cut", |()| "hello")
        }
    };
    let served = served(once(body).route("/slow", get(slow)), limits()).await;
    let mut streaming = served.connect().await;
    send(&mut streaming, GET).await;
    within(streaming.read_u8()).await.expect("the head");
    let mut idle = served.connect().await;
    let mut working = served.connect().await;
    send(&mut working, b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    within(has_started).await.expect("the request has begun");
    served.shutdown.begin();
    assert_eq!(rest(&mut idle).await, "", "an idle connection ends at once");
    group.begin();
    assert!(rest(&mut streaming).await.ends_with("0\r\n\r\n"), "the stream ends properly");
    assert!(TcpStream::connect(served.at).await.is_err(), "nobody new comes in");
    release.send(()).expect("somebody waits");
    let text = answer(&mut working).await;
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("connection: close"), "{text}");
    assert!(served.end().await < WAIT);
}

#[tokio::test]
async fn a_request_that_had_arrived_is_answered() {
    let served = served(routes(), limits()).await;
    let mut sockets = Vec::new();
    for _ in 0..50 {
        let mut socket = std::net::TcpStream::connect(served.at).expect("connects");
        std::io::Write::write_all(&mut socket, GET).expect("sent");
        sockets.push(socket);
    }
    // On this single thread, none of them was accepted yet.
    served.shutdown.begin();
    for socket in sockets {
        socket.set_nonblocking(true).expect("a socket");
        answer(&mut TcpStream::from_std(socket).expect("a socket")).await;
    }
}

#[tokio::test]
async fn connection_that_does_not_end_is_cut() {
    let (body, dropped) = stream(None);
    let served = served(once(body), Limits { drain_timeout: SHORT, ..limits() }).await;
    let mut socket = served.connect().await;
    send(&mut socket, GET).await;
    within(socket.read_u8()).await.expect("the head");
    let took = served.end().await;
    assert!((SHORT..SHORT + CUT_TIME).contains(&took), "{took:?}");
    let _ = within(dropped).await;
}

#[tokio::test]
async fn http2_without_tls_is_refused_at_once_and_http1_is_served() {
    let served = served(routes(), limits()).await;
    for preface in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n"] {
        let (mut socket, start) = (served.connect().await, Instant::now());
        send(&mut socket, &[preface, b"\0\0\0\x04\0\0\0\0\0"].concat()).await;
        let text = rest(&mut socket).await;
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 400 "), "{text}");
        assert!(start.elapsed() < LONG / 30, "{:?}", start.elapsed());
    }
    let mut upgrading = served.connect().await;
    let upgrade = "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__";
    send(&mut upgrading, format!("GET / HTTP/1.1\r\nhost: localhost\r\n{upgrade}\r\n\r\n").as_bytes()).await;
    assert!(answer(&mut upgrading).await.starts_with("HTTP/1.1 200 "), "the upgrade is not taken");
    assert!(served.end().await < SHORT * 10, "an idle connection ends at once");
}

// RULES S11
#[tokio::test]
async fn a_thousand_slow_peers_do_not_disturb_the_others() {
    const SLOW: usize = 1_000;
    let limits = Limits { max_sockets: 3 * SLOW, header_timeout: Duration::from_secs(2), ..limits() };
    allow_open_files(&limits);
    let served = served(routes(), limits).await;
    let mut slow = Vec::new();
    for at in 0..SLOW {
        let mut socket = served.connect().await;
        send(&mut socket, &b"GET / HTTP/1.1\r\nhost: loc"[..at % 26]).await;
        slow.push(socket);
    }
    let good = async {
        for _ in 0..200 {
            let mut socket = served.connect().await;
            send(&mut socket, GET).await;
            answer(&mut socket).await;
        }
    };
    let closed = async {
        for socket in &mut slow {
            assert!(!rest(socket).await.contains("200"));
        }
    };
    within(async { tokio::join!(good, closed) }).await;
}

/// Runs in a separate process, which this test starts, because the limit affects the whole process.
#[test]
fn too_many_open_files_are_waited_for() {
    const NAME: &str = "SWITCHYARD_TEST_WITH_FEW_FILES";
    if std::env::var_os(NAME).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        return runtime.block_on(with_few_files());
    }
    let own = std::env::current_exe().expect("a test binary");
    let test = format!(
        "{}::too_many_open_files_are_waited_for",
        module_path!().split_once("::").expect("a crate").1
    );
    let output =
        std::process::Command::new(own).args([&test, "--exact"]).env(NAME, "1").output().expect("starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

async fn with_few_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let served = served(routes(), limits()).await;
    let waiting = tokio::net::TcpSocket::new_v4().expect("a socket");
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).expect("lowered");
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    assert!(!files.is_empty());
    let mut waiting = waiting.connect(served.at).await.expect("the system takes it");
    send(&mut waiting, GET).await;
    let early = tokio::time::timeout(SHORT, waiting.read_u8()).await;
    assert!(early.is_err(), "nobody can have accepted it: {early:?}");
    drop(files);
    answer(&mut waiting).await;
}

/// Waits until `is_so`.
async fn eventually(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn two_listeners_of_one_process_count_their_own_sockets() {
    let (workers, shutdown) = (Workers::start(1).expect("no threads"), Shutdown::new());
    let open = async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        (ListeningSockets::from(listener), at)
    };
    let ((one, at), (other, _)) = (open().await, open().await);
    let counts = [&one, &other].map(|sockets| sockets.counts().clone());
    let serve = |sockets| {
        let limits = (Limits { max_sockets: 1, drain_timeout: LONG, ..Limits::default() }, shutdown.clone());
        serve_with(sockets, Router::new().route("/", get(|| async { "hello" })), limits, None, &workers)
    };
    let clients = async {
        let first = TcpStream::connect(at).await.expect("connects");
        eventually(|| counts[0].open() == 1).await;
        let second = TcpStream::connect(at).await.expect("connects");
        eventually(|| counts[0].yielded() == 1).await;
        assert_eq!((counts[0].open(), counts[1].open(), counts[1].yielded()), (1, 0, 0));
        drop((first, second));
        eventually(|| counts[0].open() == 0).await;
        shutdown.begin();
    };
    tokio::join!(serve(one), serve(other), clients);
}
