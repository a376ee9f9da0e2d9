//! Event streams of clients over real sockets: resumed after a cut in the middle of a call, abandoned
//! in both eras, and the old HTTP+SSE. The server runs in this process, so that a test sees whether a
//! call is still wanted.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::Principal;
use downstream::listener::{self, Limits};
use downstream::sessions::Sessions;
use downstream::{sse, stdio, streamable_http};
use futures_util::StreamExt;
use gateway::Gateway;
use gateway::manager::{Manager, Scope};
use http::StatusCode;
use json::Raw;
use protocol::{Notification, Version};
use runtime::shutdown::Shutdown;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{WAIT, eventually, sse as events};
use crate::transcripts::{Received, scripted_manager, tool as tool_of};

const MODERN: &str = "2026-07-28";

/// A gateway on its own port, and the calls that reach its one server.
struct Bench {
    address: SocketAddr,
    manager: Arc<Manager>,
    sessions: Arc<Sessions>,
    calls: mpsc::UnboundedReceiver<Received>,
    http: reqwest::Client,
    end: Shutdown,
    servers: Shutdown,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.end.begin();
        self.servers.begin();
    }
}

impl Bench {
    async fn of(version: Version) -> Self {
        let tool = Raw::of(&json!({"name": "t", "inputSchema": {"type": "object"}}));
        let (end, servers) = (Shutdown::new(), Shutdown::new());
        let (manager, calls) = scripted_manager(&[("s".into(), version, tool_of(&tool))], &servers).await;
        let sessions = Arc::new(Sessions::new(2_000, Duration::from_mins(1)));
        let gateway = Gateway::new(Arc::clone(&manager), end.clone());
        let parts = || (gateway.clone(), Arc::clone(&sessions), end.clone(), 1 << 20);
        let (one, two) = (parts(), parts());
        let router = streamable_http::StreamableHttpEndpoint::new(one.0, one.1, one.2, one.3)
            .router()
            .merge(sse::SseEndpoint::new(two.0, two.1, two.2, two.3, None).router())
            .layer(axum::Extension(Principal::anonymous()));
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = socket.local_addr().expect("an address");
        end.spawn(listener::serve(socket, router, Limits::default(), end.clone()));
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().expect("a client");
        Self { address, manager, sessions, calls, http, end, servers }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Opens a legacy session and returns its id.
    async fn session(&self, version: &str) -> String {
        let body = initialize(version);
        let response = self.post("/mcp", &body, &[]).await;
        response.headers()["mcp-session-id"].to_str().expect("visible").to_owned()
    }

    async fn post(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> reqwest::Response {
        let request = self.http.post(self.url(path)).body(body.to_string());
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.expect("an answer")
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> reqwest::Response {
        let request = self.http.get(self.url(path)).header("accept", "text/event-stream");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.expect("an answer")
    }

    /// Posts a call. Returns the call at the server, and the client's stream once `first` was sent.
    async fn begin(
        &mut self,
        body: &Value,
        headers: &[(&str, &str)],
        first: impl FnOnce(&Received),
    ) -> (Received, Stream) {
        let request = self.http.post(self.url("/mcp")).body(body.to_string());
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (response, received) = tokio::join!(request.send(), async {
            let received = self.received().await;
            first(&received);
            received
        });
        (received, Stream::of(response.expect("an answer")))
    }

    /// Posts a call and closes the connection before anything is answered. Returns the call at the
    /// server.
    async fn give_up(&mut self, body: &Value, headers: &[(&str, &str)]) -> Received {
        let head: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = head.concat();
        let (body, mut socket) =
            (body.to_string(), TcpStream::connect(self.address).await.expect("it listens"));
        let length = body.len();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n{head}\r\n{body}"
        );
        socket.write_all(request.as_bytes()).await.expect("it reads");
        let received = self.received().await;
        drop(socket);
        received
    }

    /// Resumes after the event `last`.
    async fn resume(&self, session: &[(&str, &str)], last: &str) -> Stream {
        let mut headers = session.to_vec();
        headers.push(("last-event-id", last));
        Stream::of(self.get("/mcp", &headers).await)
    }

    /// Checks that a client gets the status at which it stops resuming after the event `last`.
    async fn nothing_follows(&self, session: &[(&str, &str)], last: &str) {
        let again = self.get("/mcp", &[session, &[("last-event-id", last)]].concat()).await;
        assert_eq!(again.status(), StatusCode::NO_CONTENT);
    }

    async fn received(&mut self) -> Received {
        let call = tokio::time::timeout(WAIT, self.calls.recv()).await;
        call.expect("a call in time").expect("the server lives")
    }

    /// Checks that nothing runs: no request of a session, no call to the server.
    async fn books_are_empty(&self, sessions: &BTreeSet<String>) {
        let find = |id: &String| self.sessions.find(id, &Principal::anonymous(), &Scope::ALL);
        eventually("nothing runs in any session", async || {
            let open = |id: &String| {
                find(id).is_some_and(|session| session.running() + session.questions.count() > 0)
            };
            (!sessions.iter().any(open)).then_some(())
        })
        .await;
        eventually("every permit is free", async || {
            let snapshot = self.manager.snapshot();
            let status = snapshot.server("s").expect("it is there").upstream.status();
            (status.running + status.waiting == 0).then_some(())
        })
        .await;
    }
}

fn initialize(version: &str) -> Value {
    let capabilities = json!({"elicitation": {}, "roots": {}});
    request(
        0,
        "initialize",
        &json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}}),
    )
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: u64) -> Value {
    request(id, "tools/call", &json!({"name": "t"}))
}

fn notice(number: usize) -> Notification {
    Notification {
        method: "notifications/message".into(),
        params: Some(Raw::of(&json!({"level": "info", "data": number}))),
    }
}

fn progress() -> Notification {
    let params = Some(Raw::of(&json!({"progressToken": 7, "progress": 1})));
    Notification { method: "notifications/progress".into(), params }
}

fn result(text: &str) -> Raw {
    Raw::of(&json!({"content": [{"type": "text", "text": text}]}))
}

/// An event stream as a client reads it. Dropping it closes the connection.
struct Stream {
    chunks: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
    read: usize,
}

impl Stream {
    fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK, "{response:?}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { chunks: response.bytes_stream().boxed(), text: String::new(), read: 0 }
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<events::Event> {
        loop {
            if let Some(event) = events::events(&self.text).into_iter().nth(self.read) {
                self.read += 1;
                return Some(event);
            }
            let chunk = tokio::time::timeout(WAIT, self.chunks.next()).await.expect("something comes");
            self.text.push_str(std::str::from_utf8(&chunk?.ok()?).expect("UTF-8"));
        }
    }

    /// The next event that carries a message.
    async fn message(&mut self) -> Option<Value> {
        loop {
            let event = self.next().await?;
            if !event.data.is_empty() {
                return Some(serde_json::from_str(&event.data).expect("JSON"));
            }
        }
    }
}

/// Shortens messages: numbers of notifications, methods, texts of results.
fn short(data: &[String]) -> Vec<String> {
    let messages = data.iter().filter(|data| !data.is_empty());
    messages
        .map(|data| serde_json::from_str::<Value>(data).expect("JSON"))
        .map(|message| match message["method"].as_str() {
            Some("notifications/message") => message["params"]["data"].to_string(),
            Some(method) => method.to_owned(),
            None => message["result"]["content"][0]["text"].to_string(),
        })
        .collect()
}

#[tokio::test]
async fn a_stream_cut_anywhere_in_a_call_is_read_on_with_nothing_lost_and_nothing_twice() {
    let mut bench = Bench::of(Version::V2025_11_25).await;
    let id = bench.session("2025-11-25").await;
    let session = [("mcp-session-id", id.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let mut expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    expected.insert(10, "elicitation/create".into());
    expected.push("\"done\"".into());
    for cut in 1..=22 {
        let begin = |running: &Received| (0..10).for_each(|number| running.sender.offer(notice(number)));
        let (running, mut stream) = bench.begin(&call(cut), &session, begin).await;
        let (mut got, mut last) = (Vec::new(), String::new());
        // The first event has no message. After a part of the others, the connection is cut.
        for _ in 0..cut.min(11) {
            let event = stream.next().await.expect("an event");
            last = event.id.expect("an id");
            got.push(event.data);
        }
        drop(stream);
        let asked = running.sender.ask("elicitation/create".into(), Some(Raw::of(&json!({"message": "?"}))));
        (10..20).for_each(|number| running.sender.offer(notice(number)));
        // The resumed stream is cut again.
        let mut resumed = bench.resume(&session, &last).await;
        for _ in 0..cut.saturating_sub(11) {
            let event = resumed.next().await.expect("an event");
            last = event.id.expect("an id");
            got.push(event.data);
        }
        drop(resumed);
        let mut resumed = bench.resume(&session, &last).await;
        while !got.iter().any(|data| data.contains("elicitation/create")) {
            got.push(resumed.next().await.expect("an event").data);
        }
        let question = got.iter().find(|data| data.contains("elicitation/create")).expect("the question");
        let question: Value = serde_json::from_str(question).expect("JSON");
        let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
        assert_eq!(bench.post("/mcp", &response, &session).await.status(), StatusCode::ACCEPTED);
        assert_eq!(asked.await.expect("an answer").expect("a result").as_str(), r#"{"action":"accept"}"#);
        running.answer.send(Ok(result("done"))).expect("the call is still wanted");
        while let Some(event) = resumed.next().await {
            got.push(event.data);
        }
        assert_eq!(short(&got), expected, "cut after {cut} events");
    }
    bench.books_are_empty(&[id].into()).await;
}

// RULES S5
#[tokio::test]
async fn a_stream_of_somebody_else_and_one_that_never_was_cannot_be_read() {
    let mut bench = Bench::of(Version::V2025_11_25).await;
    let (mine, theirs) = (bench.session("2025-11-25").await, bench.session("2025-11-25").await);
    let say = |running: &Received| running.sender.offer(notice(1));
    let (running, mut stream) = bench.begin(&call(1), &[("mcp-session-id", &mine)], say).await;
    let last = stream.next().await.expect("an event").id.expect("an id");
    running.answer.send(Ok(result("secret"))).expect("wanted");
    let answer = async |id: &str| {
        let answer = bench.get("/mcp", &[("mcp-session-id", &theirs), ("last-event-id", id)]).await;
        (answer.status().as_u16(), answer.text().await.expect("a body"))
    };
    let unknown = answer("nonsense").await;
    assert_eq!(unknown.0, 400, "{unknown:?}");
    assert_eq!(answer(&last).await, unknown, "a foreign id is an unknown one");
    let own = bench.get("/mcp", &[("mcp-session-id", &mine), ("last-event-id", &last)]).await;
    assert_eq!(own.status(), StatusCode::OK);
    assert!(own.text().await.expect("a body").contains("secret"));
}

// The TypeScript SDK resumes the stream of a request that it cancelled, because the stream ended without a response.
#[tokio::test]
async fn client_that_cancelled_its_request_stops_resuming() {
    let mut bench = Bench::of(Version::V2025_11_25).await;
    let id = bench.session("2025-11-25").await;
    let session = [("mcp-session-id", id.as_str())];
    let (_running, mut stream) = bench.begin(&call(1), &session, |_| {}).await;
    let first = stream.next().await.expect("an event").id.expect("an id");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(bench.post("/mcp", &cancelled, &session).await.status(), StatusCode::ACCEPTED);
    assert!(stream.next().await.is_none(), "a cancelled request has no response");
    bench.nothing_follows(&session, &first).await;
}

// RULES R12
#[tokio::test]
async fn a_lost_connection_is_no_cancel_in_the_legacy_era_a_thousand_times() {
    let mut bench = Bench::of(Version::V2025_11_25).await;
    let mut sessions = BTreeSet::new();
    for _ in 0..10 {
        let id = bench.session("2025-11-25").await;
        let session = [("mcp-session-id", id.as_str())];
        let mut open = Vec::new();
        for number in 0..100 {
            let say = |running: &Received| running.sender.offer(notice(1));
            let (running, mut stream) = bench.begin(&call(number), &session, say).await;
            let last = stream.next().await.expect("an event").id.expect("an id");
            open.push((running, last));
            drop(stream);
        }
        for (number, (running, last)) in open.into_iter().enumerate() {
            let text = format!("{number}");
            running.answer.send(Ok(result(&text))).expect("the call is still wanted");
            let rest: Vec<String> = {
                let mut resumed = bench.resume(&session, &last).await;
                let mut all = Vec::new();
                while let Some(event) = resumed.next().await {
                    all.push(event.data);
                }
                all
            };
            assert_eq!(short(&rest).last(), Some(&format!("{text:?}")));
        }
        sessions.insert(id);
    }
    bench.books_are_empty(&sessions).await;
}

// RULES R12
#[tokio::test]
async fn a_lost_connection_is_a_cancel_in_the_modern_era_a_thousand_times() {
    let mut bench = Bench::of(Version::V2026_07_28).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    });
    let body = request(1, "tools/call", &json!({"name": "t", "_meta": meta}));
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "t")];
    for number in 0..1_000 {
        // Alternates between calls whose stream has begun and calls whose stream has not.
        let mut running = if number % 2 == 0 {
            let say = |running: &Received| running.sender.offer(progress());
            let (running, stream) = bench.begin(&body, &headers, say).await;
            drop(stream);
            running
        } else {
            bench.give_up(&body, &headers).await
        };
        tokio::time::timeout(WAIT, running.answer.closed()).await.expect("the call is cancelled");
    }
    bench.books_are_empty(&BTreeSet::new()).await;
}

/// Opens the old transport. Returns the stream and the URL to post to.
async fn open_sse(bench: &Bench, path: &str) -> (Stream, String) {
    let mut stream = Stream::of(bench.get(path, &[]).await);
    let event = stream.next().await.expect("the first event");
    assert_eq!(event.name, "endpoint");
    (stream, event.data)
}

#[tokio::test]
async fn the_old_sse_carries_a_whole_session_and_ends_with_its_stream() {
    let mut bench = Bench::of(Version::V2025_11_25).await;
    let (mut stream, messages) = open_sse(&bench, "/sse/s").await;
    assert!(messages.starts_with("/messages?session_id="), "{messages}");
    let say = async |body: &Value| bench.post(&messages, body, &[]).await.status().as_u16();
    // Before the handshake only a ping is allowed; the answer comes on the stream.
    assert_eq!(say(&request(9, "tools/list", &json!({}))).await, 202);
    assert_eq!(stream.message().await.expect("a refusal")["error"]["code"], -32600);
    // A client that tries the newest revision first gets the answer of an older server.
    let meta = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}});
    assert_eq!(say(&request(8, "server/discover", &meta)).await, 202);
    assert_eq!(stream.message().await.expect("a refusal")["error"]["code"], -32600);
    assert_eq!(say(&initialize("2024-11-05")).await, 202);
    assert_eq!(stream.message().await.expect("an answer")["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await, 202);
    assert_eq!(say(&call(1)).await, 202);
    let running = bench.received().await;
    running.sender.offer(notice(1));
    let asked = running.sender.ask("roots/list".into(), None);
    let refused = running.sender.ask("elicitation/create".into(), None);
    assert_eq!(stream.message().await.expect("a notice")["method"], "notifications/message");
    let question = stream.message().await.expect("a question");
    assert_eq!((&question["method"], &question["id"]), (&json!("roots/list"), &json!(1)));
    assert!(refused.await.is_none(), "the revision has no elicitation");
    let say = async |body: &Value| bench.post(&messages, body, &[]).await.status().as_u16();
    assert_eq!(say(&json!({"jsonrpc": "2.0", "id": 1, "result": {"roots": []}})).await, 202);
    assert_eq!(asked.await.expect("an answer").expect("a result").as_str(), r#"{"roots":[]}"#);
    running.answer.send(Ok(result("done"))).expect("wanted");
    assert_eq!(stream.message().await.expect("the answer")["result"]["content"][0]["text"], "done");
    // A body that is not a message is refused in the answer to the POST; sessions of `/mcp` are
    // unknown here.
    assert_eq!(say(&json!([])).await, 400);
    let id = messages.split('=').nth(1).expect("an id").to_owned();
    let elsewhere = bench.post("/mcp/s", &request(2, "ping", &json!({})), &[("mcp-session-id", &id)]).await;
    assert_eq!(elsewhere.status(), StatusCode::NOT_FOUND);
    // The stream is the session: when it ends, its calls and its address end too.
    assert_eq!(say(&call(3)).await, 202);
    let mut running = bench.received().await;
    let asked = running.sender.ask("roots/list".into(), None);
    drop(stream);
    tokio::time::timeout(WAIT, running.answer.closed()).await.expect("the call is cancelled");
    assert!(asked.await.is_none());
    eventually("the session is gone", async || (bench.sessions.count() == 0).then_some(())).await;
    let unknown = bench.post(&messages, &call(4), &[]).await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
    bench.books_are_empty(&BTreeSet::new()).await;
}

#[tokio::test]
async fn the_old_sse_is_refused_where_it_is_not() {
    let bench = Bench::of(Version::V2025_11_25).await;
    for (path, status) in [("/sse/nobody", 404), ("/messages", 405), ("/sse?x=y", 200)] {
        assert_eq!(bench.get(path, &[]).await.status().as_u16(), status, "{path}");
    }
    // Clients that try Streamable HTTP first take this status as the sign to use GET.
    assert_eq!(
        bench.post("/sse", &initialize("2025-11-25"), &[]).await.status(),
        StatusCode::METHOD_NOT_ALLOWED
    );
    let unknown = bench.post("/messages?session_id=00000000000000000000000000000000", &call(1), &[]).await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
    assert_eq!(bench.post("/messages", &call(1), &[]).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_pipe_carries_both_eras_at_once_and_the_questions_of_the_older_one() {
    let tool = Raw::of(&json!({"name": "t", "inputSchema": {"type": "object"}}));
    let end = Shutdown::new();
    let (manager, mut calls) =
        scripted_manager(&[("s".into(), Version::V2025_11_25, tool_of(&tool))], &end).await;
    let (client, server) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(server);
    let serving_end = end.clone();
    end.spawn(async move {
        stdio::serve((manager, None), Scope::ALL, (input, output), &serving_end, 1 << 20).await;
    });
    let (lines, mut pipe) = tokio::io::split(client);
    let mut lines = BufReader::new(lines).lines();
    let mut next = async || -> Value {
        let line = tokio::time::timeout(WAIT, lines.next_line()).await.expect("in time").expect("a line");
        serde_json::from_str(&line.expect("the pipe is open")).expect("JSON")
    };
    let mut say =
        async |message: &Value| pipe.write_all(format!("{message}\n").as_bytes()).await.expect("it reads");
    say(&initialize("2025-11-25")).await;
    assert_eq!(next().await["result"]["protocolVersion"], "2025-11-25");
    say(&call(1)).await;
    let legacy = calls.recv().await.expect("a call");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}});
    say(&request(2, "tools/call", &json!({"name": "t", "_meta": meta}))).await;
    let modern = calls.recv().await.expect("another call");
    let asked = legacy.sender.ask("roots/list".into(), None);
    assert_eq!(next().await, json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}));
    modern.answer.send(Ok(result("new"))).expect("wanted");
    assert_eq!(next().await["result"]["resultType"], "complete");
    say(&json!({"jsonrpc": "2.0", "id": 1, "result": {"roots": []}})).await;
    assert!(asked.await.expect("an answer").is_ok());
    // The server withdraws one request, and one ends with its call.
    let asked = legacy.sender.ask("roots/list".into(), None);
    let given_up = next().await;
    drop(asked);
    assert_eq!(next().await["params"]["requestId"], given_up["id"]);
    let asked = legacy.sender.ask("roots/list".into(), None);
    let question = next().await;
    say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    let cancelled = next().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"])
    );
    assert!(asked.await.is_none());
    end.begin();
    assert!(end.wait(WAIT).await, "everything has ended");
}

#[tokio::test]
async fn at_the_end_of_the_gateway_the_old_sse_still_brings_the_answer() {
    let mut bench = Bench::of(Version::V2025_11_25).await;
    let (mut stream, messages) = open_sse(&bench, "/sse").await;
    for body in [initialize("2025-11-25"), call(1)] {
        assert_eq!(bench.post(&messages, &body, &[]).await.status(), StatusCode::ACCEPTED);
    }
    assert!(stream.message().await.expect("an answer")["result"]["serverInfo"].is_object());
    let running = bench.received().await;
    bench.end.begin();
    running.answer.send(Ok(result("still here"))).expect("wanted");
    assert_eq!(stream.message().await.expect("the answer")["result"]["content"][0]["text"], "still here");
    assert!(stream.next().await.is_none(), "then the stream ends");
    assert!(bench.end.wait(WAIT).await, "and everything with it");
}

#[tokio::test]
async fn a_client_that_polls_is_let_go_when_its_server_lets_us_go_and_others_are_not() {
    let mut bench = Bench::of(Version::V2025_11_25).await;
    for version in ["2025-06-18", "2025-11-25"] {
        let polls = version == "2025-11-25";
        let id = bench.session(version).await;
        let session = [("mcp-session-id", id.as_str())];
        let say = |running: &Received| {
            running.sender.offer(notice(1));
            running.sender.pause(Duration::from_millis(70));
            running.sender.offer(notice(2));
        };
        let (running, mut stream) = bench.begin(&call(1), &session, say).await;
        let first = stream.next().await.expect("an event");
        assert_eq!(first.data.is_empty(), polls, "{version}: {first:?}");
        let mut seen = if polls { vec![stream.next().await.expect("a notice")] } else { vec![first] };
        running.answer.send(Ok(result("done"))).expect("wanted");
        while let Some(event) = stream.next().await {
            seen.push(event);
        }
        assert_eq!(stream.text.contains("retry: 70\n"), polls, "{version}");
        if polls {
            let last = seen.iter().rev().find_map(|event| event.id.clone()).expect("an id");
            seen.retain(|event| !event.data.is_empty());
            let mut resumed = bench.resume(&session, &last).await;
            while let Some(event) = resumed.next().await {
                seen.push(event);
            }
            let last = seen.last().and_then(|event| event.id.clone()).expect("an id");
            bench.nothing_follows(&session, &last).await;
        }
        let data: Vec<String> = seen.into_iter().map(|event| event.data).collect();
        assert_eq!(short(&data), ["1", "2", "\"done\""], "{version}");
    }
}

#[tokio::test]
async fn the_own_stream_of_a_session_is_read_on_too() {
    let bench = Bench::of(Version::V2025_11_25).await;
    let id = bench.session("2025-11-25").await;
    let session = [("mcp-session-id", id.as_str())];
    let mut stream = Stream::of(bench.get("/mcp", &session).await);
    let first = stream.next().await.expect("the first event");
    assert!(first.data.is_empty());
    let last = first.id.expect("an id");
    let mut newer = bench.resume(&session, &last).await;
    assert!(stream.next().await.is_none(), "a newer connection ends the older one");
    bench.end.begin();
    let closing = newer.next().await;
    assert!(closing.is_none_or(|event| event.data.is_empty()), "it says when to come back");
    assert!(newer.text.contains("retry: 3000"), "{}", newer.text);
}

#[tokio::test]
async fn a_client_of_a_session_that_names_streams_first_gets_one() {
    let bench = Bench::of(Version::V2025_11_25).await;
    let id = bench.session("2025-11-25").await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}});
    let legacy = (request(1, "ping", &json!({})), vec![("mcp-session-id", id.as_str())]);
    let modern = |method: &'static str| {
        let headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
        (request(2, method, &json!({"_meta": meta})), headers)
    };
    for ((body, headers), accept, status, kind) in [
        (legacy.clone(), "application/json, text/event-stream", 200, "application/json"),
        (legacy.clone(), "*/*", 200, "application/json"),
        (legacy, "Text/Event-Stream, application/json", 200, "text/event-stream"),
        (modern("tools/list"), "application/json, text/event-stream", 200, "application/json"),
        (modern("tools/list"), "text/event-stream, application/json", 200, "application/json"),
        (modern("no/such"), "text/event-stream, application/json", 404, "application/json"),
    ] {
        let post = bench.http.post(bench.url("/mcp")).body(body.to_string()).header("accept", accept);
        let post = post.header("content-type", "application/json");
        let post = headers.iter().fold(post, |post, (name, value)| post.header(*name, *value));
        let answer = post.send().await.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (status, &kind.parse().expect("a type")),
            "{body} {accept}"
        );
        let text = answer.text().await.expect("a body");
        let last = if kind == "application/json" {
            text
        } else {
            events::events(&text).pop().expect("an event").data
        };
        let message: Value = serde_json::from_str(&last).expect("JSON");
        assert_eq!(message["id"], body["id"]);
    }
}
