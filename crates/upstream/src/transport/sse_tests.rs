//! Tests of HTTP+SSE against a small server on loopback.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::Owner;
use crate::config::Transport;
use crate::connection::Event;
use crate::transport::testing::{MESSAGE_BYTES, config};
use json::Raw;
use protocol::feature::List;
use testkit::scripted::{ReceivedRequest, Step, TestServer, chunk, end, event, full, json, stream};

const INITIALIZED: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}"#;

struct Bench {
    server: TestServer,
    connector: ToStream,
    shutdown: Shutdown,
}

impl Bench {
    /// Starts a server whose stream continues with `then` after the handshake. The first permit is for the
    /// answer to `initialize`.
    async fn new(then: Vec<Step>) -> Self {
        let begin = vec![
            stream(""),
            chunk(": hi\n\nevent: endpoint\ndata: /messages?id=1\n\n"),
            Step::Wait,
            event(INITIALIZED),
        ];
        let script = [begin, then].concat();
        Self::with(move |seen| if is_get(seen) { script.clone() } else { vec![json(202, "Accepted")] }).await
    }

    async fn with(script: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let server = TestServer::new(script).await;
        let headers = vec![(http::header::AUTHORIZATION, "Bearer k".into())];
        let http = Http { headers, ..Http::at(server.url.clone()) };
        let shutdown = Shutdown::new();
        let connector =
            ToStream::new(&config(Transport::Sse(http.clone())), &http, &ServerContext::alone(&shutdown))
                .expect("a client");
        Self { server, connector, shutdown }
    }

    async fn connect(&self) -> (Arc<dyn Connection>, mpsc::Receiver<Event>) {
        let (events, receiver) = Events::channel();
        let (connected, ()) = tokio::join!(self.connector.connect(events, Dialect::base()), async {
            self.server.saw(1, |seen| seen.method() == method::INITIALIZE).await;
            self.server.go.add_permits(1);
        });
        (connected.expect("connects"), receiver)
    }

    async fn refusal(&self) -> Error {
        let (events, _receiver) = Events::channel();
        self.connector.connect(events, Dialect::base()).await.err().expect("it connected")
    }

    /// Lets the stream continue once the server has `count` calls.
    async fn go_on_after(&self, count: usize) {
        self.server.saw(count, |seen| seen.has("tools/call")).await;
        self.server.go.add_permits(1);
    }
}

fn is_get(seen: &ReceivedRequest) -> bool {
    seen.line.starts_with("GET")
}

fn call(name: &str) -> Call {
    let params = Raw::of(&json!({"name": name, "arguments": {}}));
    Call { wants_progress: true, owner: Owner::new(), ..Call::of_gateway(method::TOOLS_CALL, Some(params)) }
}

async fn ask(connection: &Arc<dyn Connection>, name: &str) -> Result<Raw, Error> {
    Ok(connection.request(&call(name), &EventSender::none()).await?.collect().await?.expect("a result"))
}

#[tokio::test]
async fn requests_are_posted_and_answered_on_the_stream() {
    let then = vec![
        Step::Wait,
        event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
        event(
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#,
        ),
        chunk("event: other\ndata: no message\n\ndata: no JSON\n\n"),
        event(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#),
        event(r#"{"jsonrpc":"2.0","id":3,"result":{"n":1e400}}"#),
        event(r#"{"jsonrpc":"2.0","id":2,"result":{"n":2}}"#),
        Step::Hang,
    ];
    let mut bench = Bench::new(then).await;
    let (connection, mut events) = bench.connect().await;
    let (event_sender, mut reader) = EventSender::new(8);
    let call = call("a");
    let (two, three, ()) = tokio::join!(
        connection.request(&call, &event_sender),
        async {
            bench.server.saw(1, |seen| seen.has("tools/call")).await;
            ask(&connection, "b").await
        },
        bench.go_on_after(2),
    );
    let two = two.expect("answered").collect().await.expect("whole");
    assert_eq!(two.expect("a result").as_str(), r#"{"n":2}"#);
    assert_eq!(three.expect("a result").as_str(), r#"{"n":1e400}"#);
    assert_eq!(reader.try_recv().expect("progress").method(), method::PROGRESS);
    assert_eq!(events.try_recv(), Ok(Event::Changed(List::Tools)));
    bench.server.saw(1, |seen| seen.has(r#""id":"p","result":{}"#)).await;
    for seen in bench.server.seen() {
        assert_eq!(seen.header("authorization"), Some("Bearer k"));
        assert!(is_get(&seen) || seen.line == "POST /messages?id=1", "{}", seen.line);
    }
    connection.close().await;
    bench.server.left.recv().await.expect("the stream ends with the connection");
    assert!(bench.shutdown.wait(Duration::from_secs(20)).await, "a task is left");
}

#[tokio::test]
async fn the_end_of_the_stream_ends_every_call() {
    for (how, reason) in [(end(), "ended the event stream"), (Step::Reset, "was lost")] {
        let bench = Bench::new(vec![Step::Wait, how, Step::Close]).await;
        let (connection, _events) = bench.connect().await;
        let (one, two, ()) = tokio::join!(ask(&connection, "a"), ask(&connection, "b"), bench.go_on_after(2));
        for outcome in [one, two] {
            assert!(
                matches!(&outcome, Err(Error::Lost { reason: text }) if text.contains(reason)),
                "{outcome:?}"
            );
        }
        assert!(connection.closed().await.contains(reason));
        assert!(matches!(ask(&connection, "c").await, Err(Error::NotSent { .. })));
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_and_one_too_long_ends_alone() {
    let long = format!(r#"{{"result":"{}","jsonrpc":"2.0","id":3}}"#, "x".repeat(MESSAGE_BYTES));
    let bench = Bench::new(vec![Step::Wait, event(&long), Step::Hang]).await;
    let (connection, _events) = bench.connect().await;
    tokio::select! {
        answer = ask(&connection, "a") => panic!("{answer:?}"),
        _ = bench.server.saw(1, |seen| seen.has("tools/call")) => {}
    }
    bench.server.saw(1, |seen| seen.method() == method::CANCELLED && seen.has(r#""requestId":2"#)).await;
    let (outcome, ()) = tokio::join!(ask(&connection, "b"), bench.go_on_after(2));
    assert_eq!(outcome, Err(Error::TooLarge { limit: MESSAGE_BYTES }));
    assert!(connection.closed().now_or_never().is_none());
}

#[tokio::test]
async fn a_post_that_is_refused_fails_its_call_at_once() {
    for (status, closes) in [(404, true), (410, true), (400, true), (503, false), (401, false)] {
        let bench = Bench::with(move |seen| match seen.method().as_str() {
            method::TOOLS_CALL => vec![full(status, "retry-after: 2\r\n", "no")],
            _ if is_get(seen) => vec![
                stream(""),
                chunk("event: endpoint\ndata: m\n\n"),
                Step::Wait,
                event(INITIALIZED),
                Step::Hang,
            ],
            _ => vec![json(202, "")],
        })
        .await;
        let (connection, _events) = bench.connect().await;
        let error = ask(&connection, "a").await.expect_err("refused");
        if closes {
            assert!(matches!(error, Error::SessionEnded(_)), "{error:?}");
            connection.closed().await;
        } else {
            assert_eq!(
                error,
                Error::Status { status, retry_after: Some(Duration::from_secs(2)), detail: ": no".into() }
            );
            assert!(connection.closed().now_or_never().is_none());
        }
        assert!(!bench.server.seen().iter().any(|seen| seen.method() == method::CANCELLED));
    }
}

#[tokio::test]
async fn a_post_that_is_refused_cuts_no_other_call() {
    for status in [400, 401, 404] {
        let bench = Bench::with(move |seen| match seen.method().as_str() {
            method::TOOLS_CALL if seen.has(r#""odd""#) => vec![full(status, "", "no")],
            _ if is_get(seen) => vec![
                stream(""),
                chunk("event: endpoint\ndata: m\n\n"),
                Step::Wait,
                event(INITIALIZED),
                Step::Wait,
                event(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
                Step::Hang,
            ],
            _ => vec![json(202, "")],
        })
        .await;
        let (connection, _events) = bench.connect().await;
        let (slow, ()) = tokio::join!(ask(&connection, "slow"), async {
            bench.server.saw(1, |seen| seen.has(r#""slow""#)).await;
            ask(&connection, "odd").await.expect_err("refused");
            if status != 401 {
                connection.closed().await;
                connection.close().await;
                assert!(matches!(ask(&connection, "new").await, Err(Error::SessionEnded(_))));
            }
            bench.server.go.add_permits(1);
        });
        slow.expect("answered all the same");
        assert!(!bench.server.seen().iter().any(|seen| seen.has(r#""new""#)));
        drop(connection);
        assert!(bench.shutdown.wait(Duration::from_secs(20)).await, "a task is left");
    }
}

#[tokio::test]
async fn a_batch_on_the_stream_answers_and_a_refused_notification_is_no_failure() {
    let batch = r#"[{"jsonrpc":"2.0","method":"notifications/tools/list_changed"},{"jsonrpc":"2.0","id":2,"result":{"ok":1}}]"#;
    let script = vec![
        stream(""),
        chunk("event: endpoint\ndata: /messages?id=1\n\n"),
        Step::Wait,
        event(INITIALIZED),
        Step::Wait,
        event(batch),
        Step::Hang,
    ];
    let bench = Bench::with(move |seen| match () {
        () if is_get(seen) => script.clone(),
        () if seen.method() == method::INITIALIZED => vec![full(400, "", "no notifications")],
        () => vec![json(202, "Accepted")],
    })
    .await;
    let (connection, mut events) = bench.connect().await;
    let (call, no_events) = (Call::of_gateway("t", None), EventSender::none());
    let (answer, ()) = tokio::join!(connection.request(&call, &no_events), async {
        bench.server.saw(1, |seen| seen.method() == "t").await;
        bench.server.go.add_permits(1);
    });
    let answer = answer.expect("an answer").collect().await.expect("whole").expect("a result");
    assert_eq!(answer.as_str(), r#"{"ok":1}"#);
    loop {
        if let Event::Changed(list) = events.recv().await.expect("an event") {
            break assert_eq!(list, List::Tools);
        }
    }
}

#[tokio::test]
async fn a_refusal_of_the_notification_after_the_handshake_is_no_answer_to_the_first_call() {
    let bench = Bench::new(vec![
        Step::Wait,
        event(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"id is missing"}}"#),
        event(r#"{"jsonrpc":"2.0","id":2,"result":{"ok":1}}"#),
        Step::Hang,
    ])
    .await;
    let (connection, _events) = bench.connect().await;
    let (answer, ()) = tokio::join!(ask(&connection, "a"), bench.go_on_after(1));
    assert_eq!(answer.expect("a result").as_str(), r#"{"ok":1}"#);
}

#[tokio::test]
async fn a_stream_that_is_not_what_it_should_be_is_refused() {
    let begins = |text: &'static str| move |_: &ReceivedRequest| vec![stream(""), chunk(text), end()];
    let foreign = Bench::with(begins("event: endpoint\ndata: http://127.0.0.2:1/steal\n\n")).await;
    let refusal = foreign.refusal().await.to_string();
    assert!(
        refusal.contains("another origin, http://127.0.0.2:1,") && !refusal.contains("steal"),
        "{refusal}"
    );
    let silent = Bench::with(begins("data: x\n\n")).await;
    assert!(silent.refusal().await.to_string().contains("endpoint"));
    let page = Bench::with(|_| vec![full(200, "content-type: text/html\r\n", "hello")]).await;
    assert!(page.refusal().await.to_string().contains("no event stream"));
    let closed = Bench::with(|_| vec![full(403, "", "")]).await;
    assert_eq!(closed.refusal().await, Error::AuthFailed { reason: "HTTP 403".into() });
}
