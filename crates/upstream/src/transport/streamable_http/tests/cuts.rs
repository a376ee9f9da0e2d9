//! Where a connection can break, and what each break means for the call.

use super::*;
use crate::error::Delivery;
use crate::transport::testing::MESSAGE_BYTES;
use testkit::scripted::{chunk, end, event, full, stream};

/// The kind of a failure, without its words.
fn kind(outcome: Result<Reply, Error>) -> &'static str {
    match outcome {
        Ok(Ok(_)) => "result",
        Ok(Err(_)) => "error",
        Err(Error::Connect { .. }) => "connect",
        Err(Error::NotSent { .. }) => "not sent",
        Err(Error::Lost { .. }) => "lost",
        Err(Error::Cut { .. }) => "cut",
        Err(Error::Status { .. }) => "status",
        Err(Error::Malformed { .. } | Error::Unreadable { .. }) => "malformed",
        Err(Error::TooLarge { .. }) => "too large",
        Err(other) => panic!("{other:?}"),
    }
}

const PROGRESS: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;

// RULES R9
#[tokio::test]
async fn each_cut_point_has_its_own_meaning() {
    let say = |text: &str| Step::Say(text.into());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let sized = format!("{head}content-length: 36\r\n\r\n");
    let half = &ANSWER[..20];
    let (close, reset) = (|| Step::Close, || Step::Reset);
    let cuts: Vec<(&str, Vec<Step>, &str)> = vec![
        ("after the request", vec![close()], "lost"),
        ("reset after the request", vec![reset()], "lost"),
        ("within the status line", vec![say("HTTP/1.1 20"), close()], "lost"),
        ("within the headers", vec![say(head), close()], "lost"),
        ("after the headers", vec![say(&sized), close()], "cut"),
        ("within the body", vec![say(&sized), say(half), close()], "cut"),
        (
            "within a chunk",
            vec![say(&format!("{head}transfer-encoding: chunked\r\n\r\n24\r\n{half}")), close()],
            "cut",
        ),
        (
            "before the last chunk",
            vec![say(&format!("{head}transfer-encoding: chunked\r\n\r\n")), chunk(ANSWER), close()],
            "cut",
        ),
        (
            "nowhere, in another transfer coding",
            vec![say(&format!("{head}transfer-encoding: gzip, chunked\r\n\r\n")), chunk(ANSWER), end()],
            "malformed",
        ),
        ("at the head of a stream", vec![stream(""), close()], "cut"),
        ("within an event", vec![stream(""), chunk(&format!("data: {half}")), close()], "cut"),
        (
            "before the blank line of the answer",
            vec![stream(""), chunk(&format!("data: {ANSWER}\n")), end()],
            "cut",
        ),
        ("after progress", vec![stream(""), event(PROGRESS), close()], "cut"),
        ("after progress, in good order", vec![stream(""), event(PROGRESS), end()], "cut"),
        (
            "after an id, which is no resumption here",
            vec![stream(""), chunk("id: 1\ndata:\n\n"), end()],
            "cut",
        ),
        ("after the answer", vec![stream(""), event(ANSWER), close()], "result"),
        ("nowhere", vec![stream(""), event(PROGRESS), event(ANSWER), end()], "result"),
    ];
    for (place, steps, expected) in cuts {
        let bench = Bench::modern(move |_| steps.clone()).await;
        let outcome = bench.outcome().await;
        assert_eq!(kind(outcome.clone()), expected, "cut {place}: {outcome:?}");
        let calls = bench.server.seen().iter().filter(|seen| seen.has("tools/call")).count();
        assert_eq!(calls, 1, "cut {place}: sent again");
    }
}

#[tokio::test]
async fn request_that_never_reached_the_server_says_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/secret?key=secret", listener.local_addr().expect("an address"));
    drop(listener);
    for url in [url.as_str(), "http://no-such-host.invalid/secret"] {
        let http = Http::at(url::Url::parse(url).expect("a URL"));
        let connector = ToUrl::new(
            &config(Transport::Http(http.clone())),
            &http,
            &ServerContext::alone(&Shutdown::new()),
        )
        .expect("a client");
        let (events, _receiver) = Events::channel();
        let error = connector.connect(events, Dialect::base()).await.err().expect("nobody there");
        assert!(matches!(error, Error::Connect { .. }) && error.delivery() == Delivery::NotSent, "{error:?}");
        assert!(!error.to_string().contains("secret") && !error.to_string().is_empty(), "{error}");
    }
}

// RULES S18
#[tokio::test]
async fn invalid_answer_is_distinguished_from_a_broken_connection() {
    let long = "x".repeat(MESSAGE_BYTES);
    let too_long = format!(r#"{{"jsonrpc":"2.0","id":2,"result":"{long}"}}"#);
    let html = |status| full(status, "content-type: text/html\r\nretry-after: 7\r\n", "<h1>no</h1>");
    let nameless = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"busy"}}"#;
    let refused = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"x"}}"#;
    let answers: Vec<(&str, Vec<Step>, &str)> = vec![
        ("no JSON", vec![json(200, "hello")], "malformed"),
        ("nothing", vec![json(202, "")], "malformed"),
        ("another id", vec![json(200, &ANSWER.replace(":2,", ":3,"))], "malformed"),
        ("a batch", vec![json(200, &format!("[{ANSWER}]"))], "result"),
        ("a batch that begins with an error", vec![json(200, &format!("[{nameless},{ANSWER}]"))], "result"),
        (
            "an event with a batch that ends with an error",
            vec![stream(""), event(&format!("[{ANSWER},{nameless}]")), end()],
            "result",
        ),
        ("a batch with status 400", vec![json(400, &format!("[{refused}]"))], "error"),
        ("a batch of others with status 400", vec![json(400, &format!("[{PROGRESS}]"))], "status"),
        ("a list with status 400", vec![json(400, r#"[{"field":"n"}]"#)], "status"),
        ("an event that is no JSON", vec![stream(""), event("{"), end()], "malformed"),
        ("an error with status 400", vec![json(400, refused)], "error"),
        (
            "an error with status 404",
            vec![json(404, r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"x"}}"#)],
            "error",
        ),
        ("an error without an id", vec![json(500, nameless)], "error"),
        ("a proxy's error without an id", vec![json(503, nameless)], "status"),
        ("a web page", vec![html(502)], "status"),
        (
            "a redirect to another origin",
            vec![full(307, "location: http://127.0.0.1:1/mcp\r\n", "")],
            "status",
        ),
        ("a redirect of another kind", vec![full(302, "location: /elsewhere\r\n", "")], "status"),
        ("a page that is not there", vec![html(404)], "status"),
        ("a method that is not allowed", vec![json(405, "")], "status"),
        ("an argument nobody could read", vec![json(400, nameless)], "error"),
        ("a bad request without a word", vec![json(400, "")], "status"),
        (
            "an answer labelled as events",
            vec![full(200, "content-type: Text/Event-Stream; charset=utf-8\r\n", &format!("\n {ANSWER}"))],
            "result",
        ),
        (
            "a batch labelled as events",
            vec![full(200, "content-type: text/event-stream\r\n", &format!("[ {ANSWER}]"))],
            "result",
        ),
        (
            "events behind a line of a log",
            vec![full(200, "content-type: text/event-stream\r\n", &format!("[info]\n\ndata: {ANSWER}\n\n"))],
            "result",
        ),
        ("an answer without a label", vec![full(200, "", ANSWER)], "result"),
        ("too long", vec![json(200, &too_long)], "too large"),
        (
            "too long, in chunks",
            vec![stream(""), chunk(&too_long[..40_000]), chunk(&too_long[40_000..])],
            "too large",
        ),
        ("too long an event", vec![stream(""), event(&too_long)], "too large"),
    ];
    for (what, steps, expected) in answers {
        let bench = Bench::modern(move |_| steps.clone()).await;
        let outcome = bench.outcome().await;
        assert_eq!(kind(outcome.clone()), expected, "{what}: {outcome:?}");
        if let Err(Error::Status { retry_after, status, .. }) = outcome {
            let expected = matches!(status, 404 | 502).then(|| std::time::Duration::from_secs(7));
            assert_eq!(retry_after, expected);
        }
        assert!(bench.server.seen().iter().all(|seen| seen.line == "POST /mcp"), "a redirect was followed");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_stream() {
    for steps in [vec![Step::Hang], vec![stream(""), event(PROGRESS), Step::Hang]] {
        let mut bench = Bench::modern(move |_| steps.clone()).await;
        let (connection, _events) = bench.connect().await;
        tokio::select! {
            answer = ask(&connection, "t") => panic!("{answer:?}"),
            _ = bench.server.saw(1, |seen| seen.has("tools/call")) => {}
        }
        bench.server.left.recv().await.expect("the server sees us go");
    }
}

// RULES R10
#[tokio::test]
async fn after_a_stale_connection_an_unsafe_call_takes_a_fresh_one() {
    // The second request on a connection finds it closed, as when a server times it out.
    let bench = Bench::modern(|seen| {
        match seen.body.get("params").and_then(|p| p.get_as::<String>("name")).as_deref() {
            Some("stale") => vec![Step::Close],
            _ => vec![result(seen, "{}")],
        }
    })
    .await;
    let (connection, _events) = bench.connect().await;
    assert!(matches!(ask(&connection, "stale").await, Err(Error::Lost { .. })));
    let mut used = Vec::new();
    for round in 0..4 {
        let mut call = call("t");
        if round >= 2 {
            call.effect = Effect::ReadOnly;
        }
        result_of(&connection, &call, &EventSender::none()).await.expect("answered");
        used.push(bench.server.seen().last().expect("a request").connection);
    }
    assert!(used[0] != used[1] && used[1] != used[2], "unsafe calls share no connection: {used:?}");
    assert_eq!(used[2], used[3], "a call that may run twice does not care");
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_stream() {
    let answer =
        |seen: &ReceivedRequest| event(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, seen.id()));
    let bench = Bench::modern(move |seen| vec![stream(""), answer(seen), Step::Wait, end()]).await;
    let (connection, _events) = bench.connect().await;
    for attempt in 0..1000 {
        ask(&connection, "t").await.expect("a result");
        bench.server.go.add_permits(1); // only now the end of the stream
        tokio::task::yield_now().await;
        if bench.server.seen().last().expect("a request").connection < attempt {
            return;
        }
    }
    panic!("every stream took a connection of its own");
}
