//! Tests against servers on loopback that break off, answer early or keep nobody waiting.

use std::ops::Deref;
use std::sync::atomic::AtomicUsize;

use axum::Router;
use axum::routing::post as post_route;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::join_all;
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use runtime::memory::Payer;
use testkit::scripted::{ReceivedRequest, Step, TestServer, chunk, end, full, json, stream};
use testkit::served::Served;

const NOTE: &[u8] = br#"{"jsonrpc":"2.0","method":"note"}"#;
/// The limit of one answer.
const MAX_BYTES: usize = 64 * 1024;

/// A client and the URL that it calls.
struct Caller {
    client: Client,
    url: Url,
}

impl Deref for Caller {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

fn client(url: &Url) -> Caller {
    keeping(url, 300)
}

/// A client that keeps `max_idle` idle connections.
fn keeping(url: &Url, max_idle: usize) -> Caller {
    Caller {
        client: Client::new(url, (DialPolicy::Anywhere, &Network::default()), max_idle, &Shutdown::new())
            .expect("a client"),
        url: url.clone(),
    }
}

/// A server that does `script` to each request, and a client for it.
async fn bench(
    script: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static,
) -> (TestServer, Caller) {
    let server = TestServer::new(script).await;
    let client = client(&server.url);
    (server, client)
}

async fn post(client: &Caller, once: bool) -> Result<Response, Error> {
    post_body(client, Bytes::from_static(NOTE), once).await
}

async fn post_body(client: &Caller, body: Bytes, once: bool) -> Result<Response, Error> {
    let mut request = RequestBuilder::new(Method::POST, client.url.clone()).build()?;
    *request.body_mut() = body.into();
    client.send(request, once).await
}

/// Posts, and reads the whole answer.
async fn ask(client: &Caller, once: bool) -> Result<Bytes, Error> {
    let answer = post(client, once).await?;
    let server = "server".into();
    let payer = Payer { principal: None, server: &server };
    collect(answer.into_body(), Bytes::new(), MAX_BYTES, payer).await
}

/// Lets everything happen that only waits for its turn, news from the sockets included.
async fn let_it_happen() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_body_read_to_its_end_gives_its_connection_back() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";
    let bodies: Vec<(&str, Vec<Step>, &str, bool)> = vec![
        ("of known length", vec![full(200, "", "abc")], "abc", true),
        ("in chunks", vec![stream(""), chunk("ab"), chunk("c"), end()], "abc", true),
        (
            "up to the end of the connection",
            vec![Step::Say(format!("{head}\r\nabc")), Step::Close],
            "abc",
            false,
        ),
        ("that is none", vec![json(202, "")], "", true),
        ("that is none, with 204", vec![Step::Say("HTTP/1.1 204 X\r\n\r\n".into())], "", true),
        ("with a farewell", vec![full(200, "connection: close\r\n", "abc"), Step::Close], "abc", false),
        (
            "after hints that it will come",
            vec![Step::Say("HTTP/1.1 103 X\r\nlink: x\r\n\r\n".into()), full(200, "", "abc")],
            "abc",
            true,
        ),
    ];
    for (kind, steps, expected, is_kept) in bodies {
        let (server, client) = bench(move |_| steps.clone()).await;
        for _ in 0..3 {
            assert_eq!(ask(&client, true).await.expect("an answer"), expected, "a body {kind}");
        }
        let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections, if is_kept { [0, 0, 0] } else { [0, 1, 2] }, "a body {kind}");
    }
}

#[tokio::test]
async fn interim_responses_are_skipped_up_to_a_limit_and_then_close_the_connection() {
    const HINT: &str = "HTTP/1.1 103 X\r\nlink: x\r\n\r\n";
    let (server, client) = bench(|_| vec![Step::Say(HINT.repeat(2_000)), full(200, "", "abc")]).await;
    for _ in 0..2 {
        assert_eq!(ask(&client, true).await.expect("54 KB of them are accepted"), "abc");
    }
    assert_eq!(server.seen().len(), 2);
    let (_server, client) = bench(|_| vec![Step::Say(HINT.repeat(200_000)), Step::Hang]).await;
    let asking = tokio::time::timeout(Duration::from_secs(10), ask(&client, true));
    let error = asking.await.expect("it does not wait for the head").expect_err("there is none");
    assert!(error.to_string().contains("64 KiB before the final head"), "{error}");
    assert_eq!(client.sockets().open, 0);
}

#[tokio::test]
async fn the_announced_length_is_known_before_the_body() {
    let (_server, client) = bench(|_| vec![full(200, "", "abc")]).await;
    let body = post(&client, true).await.expect("an answer").into_body();
    assert_eq!(http_body::Body::size_hint(&body).exact(), Some(3));
    let (_server, client) = bench(|_| vec![stream(""), chunk("abc"), end()]).await;
    let body = post(&client, true).await.expect("an answer").into_body();
    assert_eq!(http_body::Body::size_hint(&body).exact(), None);
}

#[tokio::test]
async fn a_connection_that_died_while_idle_is_noticed_before_anything_is_sent() {
    for once in [false, true] {
        let (server, client) = bench(|_| vec![full(200, "", "abc"), Step::Wait, Step::Close]).await;
        for round in 0..3 {
            assert_eq!(ask(&client, once).await.expect("an answer"), "abc");
            assert_eq!(client.idle.here().len(), 1, "it waits, and then it dies");
            server.go.add_permits(1);
            let_it_happen().await;
            assert_eq!(server.seen().len(), round + 1, "each was sent once");
        }
    }
}

/// Nothing runs on this thread between the end of the server and the next requests, so its runtime does not know of
/// the end. Without a look at the socket itself, each of them would be lost with an unknown outcome.
#[tokio::test]
async fn an_end_that_the_runtime_does_not_know_of_is_seen_before_a_request_is_written() {
    const AT_ONCE: usize = 8;
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let count = move || async move {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let mut served = Served::start(Router::new().route("/", post_route(count)));
    let client = client(&served.url().parse().expect("a URL"));
    let ask_all = || join_all((0..AT_ONCE).map(|_| ask(&client, true)));
    for round in 0..20 {
        assert!(ask_all().await.iter().all(Result::is_ok), "round {round}");
        assert_eq!(client.idle.here().len(), AT_ONCE);
        served.restart();
        let before = runs.load(Ordering::Relaxed);
        let failed: Vec<_> = ask_all().await.into_iter().filter_map(Result::err).collect();
        assert!(failed.is_empty(), "round {round}: {failed:?}");
        assert_eq!(runs.load(Ordering::Relaxed) - before, AT_ONCE, "round {round}: each ran once");
    }
}

#[tokio::test]
async fn cancelled_request_closes_its_connection() {
    let (mut server, client) = bench(|_| vec![Step::Hang]).await;
    tokio::select! {
        _ = post(&client, true) => panic!("an answer"),
        _ = server.saw(1, |_| true) => {}
    }
    server.left.recv().await.expect("the server sees us go");

    let (mut server, client) = bench(|_| vec![stream(""), chunk("a"), Step::Hang]).await;
    let answer = post(&client, true).await.expect("a head");
    drop(answer);
    server.left.recv().await.expect("the server sees us go");
    assert_eq!(client.idle.here().len(), 0);
}

#[tokio::test]
async fn an_answer_nobody_reads_keeps_its_connection_if_it_is_all_there() {
    let (server, client) = bench(|_| vec![stream(""), end()]).await;
    for _ in 0..2 {
        let answer = post(&client, true).await.expect("an answer");
        let_it_happen().await;
        drop(answer);
    }
    assert!(server.seen().iter().all(|seen| seen.connection == 0));
}

#[tokio::test]
async fn a_server_may_answer_before_it_has_read_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address")).parse().expect("a URL");
    let client = client(&url);
    // More than the sockets take.
    let mut long = vec![b'x'; 16 << 20];
    long.push(b'y');
    let long = Bytes::from(long);
    let (answer, server) = tokio::join!(post_body(&client, long.clone(), true), async {
        let mut stream = listener.accept().await.expect("a connection").0;
        stream.write_all(b"HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n").await.expect("written");
        stream
    });
    drop(answer.expect("an answer"));
    let mut server = server;
    let (mut all, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    while !all.ends_with(b"xy") {
        let read = server.read(&mut piece).await.expect("it goes on");
        assert!(read > 0, "only {} bytes were sent", all.len());
        all.extend_from_slice(&piece[..read]);
    }
    assert!(all.len() > long.len());
    let_it_happen().await;
    assert_eq!(client.idle.here().len(), 1, "it can be used again");
}

#[tokio::test]
async fn request_sent_and_not_answered_is_lost_and_makes_the_client_wary() {
    let (server, client) = bench(|seen| match seen.connection {
        0 => vec![Step::Close],
        _ => vec![full(200, "", "abc")],
    })
    .await;
    assert!(matches!(ask(&client, true).await, Err(Error::Lost { .. })));
    for once in [false, true, true, false] {
        ask(&client, once).await.expect("an answer");
    }
    let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 1, 2, 3, 1], "what must not run twice takes a new one each time");
    client.wary_until.store(1, Ordering::Relaxed);
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(2)).await;
    tokio::time::resume();
    ask(&client, true).await.expect("an answer");
    assert_eq!(server.seen().last().expect("a request").connection, 1, "not for ever");
}

#[tokio::test]
async fn where_nobody_listens_nothing_is_sent_and_nothing_told() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://user:secret@{}/secret?secret", listener.local_addr().expect("an address"));
    drop(listener);
    let error = ask(&client(&url.parse().expect("a URL")), true).await.expect_err("nobody there");
    let Error::Connect { reason } = &error else { panic!("{error:?}") };
    assert!(reason.contains("refused") && !reason.contains("secret") && !reason.contains("127."), "{reason}");
}

#[tokio::test]
async fn a_client_for_public_addresses_connects_to_no_other() {
    let server = TestServer::new(|_| vec![full(200, "", "abc")]).await;
    let public = |url: &Url| Client::new(url, (DialPolicy::Public, &Network::default()), 1, &Shutdown::new());
    let refused = |error: Error| error.to_string().contains("no public address");
    assert!(public(&server.url).err().is_some_and(refused), "an address in the URL");
    let mut url = server.url.clone();
    url.set_host(Some("localhost")).expect("a host");
    let caller = Caller { client: public(&url).expect("a client"), url };
    assert!(ask(&caller, true).await.err().is_some_and(refused), "an address that a name resolves to");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn so_many_connections_wait_and_no_more_and_not_for_long() {
    let (server, client) = bench(|_| vec![Step::Wait, full(200, "", "abc")]).await;
    let all = join_all((0..=connection::AT_MOST).map(|_| ask(&client, true)));
    let go = async {
        server.saw(connection::AT_MOST + 1, |_| true).await;
        server.go.add_permits(connection::AT_MOST + 1);
    };
    let (answers, ()) = tokio::join!(all, go);
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(client.idle.here().len(), connection::AT_MOST);

    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(4)).await;
    let_it_happen().await;
    assert_eq!(client.idle.here().len(), 0, "closed before the server does it");
}

#[tokio::test]
async fn more_than_the_pool_keeps_wait_a_second_whatever_worker_they_are_on() {
    let server = TestServer::new(|_| vec![Step::Wait, full(200, "", "abc")]).await;
    let client = keeping(&server.url, 3);
    let burst = async |worker: usize, size: usize| {
        runtime::worker::become_worker(worker);
        let before = server.seen().len();
        let all = join_all((0..size).map(|_| ask(&client, true)));
        let go = async {
            server.saw(before + size, |_| true).await;
            assert_eq!(client.sockets().open - client.sockets().idle, size, "each has its own");
            server.go.add_permits(size);
        };
        let (answers, ()) = tokio::join!(all, go);
        assert!(answers.iter().all(Result::is_ok));
    };
    burst(0, 6).await;
    burst(1, 5).await;
    runtime::worker::become_worker(0);
    assert_eq!(client.sockets(), Sockets { open: 11, idle: 11 });

    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await;
    let_it_happen().await;
    assert_eq!(client.sockets(), Sockets { open: 3, idle: 3 }, "on both workers together");
    tokio::time::advance(Duration::from_secs(3)).await;
    let_it_happen().await;
    assert_eq!(client.sockets(), Sockets { open: 0, idle: 0 });
}

#[tokio::test]
async fn connections_in_constant_use_are_kept_above_the_idle_limit() {
    let server = TestServer::new(|_| vec![Step::Wait, full(200, "", "abc")]).await;
    let client = keeping(&server.url, 1);
    for round in 1..=3 {
        let all = join_all((0..4).map(|_| ask(&client, true)));
        let go = async {
            server.saw(4 * round, |_| true).await;
            server.go.add_permits(4);
        };
        tokio::join!(all, go);
        tokio::time::pause();
        tokio::time::advance(Duration::from_millis(900)).await;
        let_it_happen().await;
        tokio::time::resume();
    }
    let connections: std::collections::BTreeSet<_> =
        server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections.len(), 4, "bursts that come within a second open nothing anew");
}

#[tokio::test]
async fn nothing_waits_after_the_end_of_the_program() {
    let server = TestServer::new(|_| vec![full(200, "", "abc")]).await;
    let shutdown = Shutdown::new();
    let client = Client::new(&server.url, (DialPolicy::Anywhere, &Network::default()), 300, &shutdown)
        .expect("a client");
    let client = Caller { client, url: server.url.clone() };
    ask(&client, true).await.expect("an answer");
    assert_eq!(client.idle.here().len(), 1);
    shutdown.begin();
    assert!(shutdown.wait(Duration::from_secs(20)).await);
    assert_eq!(client.idle.here().len(), 0);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://localhost:{}/", listener.local_addr().expect("an address").port());
    let client = client(&url.parse().expect("a URL"));
    let (outcome, ()) = tokio::join!(ask(&client, true), async {
        // `localhost` may be two addresses; only one has a listener.
        let stream = listener.accept().await.expect("a connection").0;
        assert!(self_signed().accept(stream).await.is_err(), "it went on");
    });
    let Err(Error::Connect { reason }) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("certificate") && !reason.contains("localhost"), "{reason}");
}

/// Made once, for `localhost` and for nothing but this test; good until 2126.
const CERTIFICATE: &str = "\
    MIIBljCCATugAwIBAgIUWVeDDIJ61t5rrMVRx1F9bEB3/4kwCgYIKoZIzj0EAwIwFDESMBAGA1UEAwwJbG9jYWxob3\
    N0MCAXDTI2MTEyMTIzMTEzMloYDzIxMjYxMDI4MjMxMTMyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjO\
    PQIBBggqhkjOPQMBBwNCAASkp/sgZIgF0OLXI9fZ1JIqcMlSVMAjlJww/6mTnapuaMvdy3A2SuSnoI7i3/9gVqExdu\
    7lU5zygIexHkdBe58Ko2kwZzAdBgNVHQ4EFgQUE51AxDMdOlG8uxlxfolBRfTJzFYwHwYDVR0jBBgwFoAUE51AxDMd\
    OlG8uxlxfolBRfTJzFYwDwYDVR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwIDSQ\
    AwRgIhAMZKPFKHeeTYVMTboTHiVSnIHWxZMbefslbI05JjgB9aAiEAxbtULNQj0dvvQPtYBPABnAQg+xtQ4j5qvRQC\
    Xg4mI9M=";
const ITS_KEY: &str = "\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgCm0vXoKwnQ7lCQI7cRX+S2XxcP7MaN7g1F08oCohzt\
    ChRANCAASkp/sgZIgF0OLXI9fZ1JIqcMlSVMAjlJww/6mTnapuaMvdy3A2SuSnoI7i3/9gVqExdu7lU5zygIexHkdB\
    e58K";

fn self_signed() -> tokio_rustls::TlsAcceptor {
    let decoded = |text: &str| STANDARD.decode(text).expect("base64");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(decoded(ITS_KEY));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![decoded(CERTIFICATE).into()], key.into())
        .expect("a certificate");
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}
