//! Tests of streamed results: which ones are streamed, and what counts for the server and the memory budget.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::*;
use crate::breaker::State;
use crate::{Config, ResponseBody, ResponseStream, Update, Upstream};
use json::envelope_stream::Terms;
use testkit::scripted::{chunk, end};

const TERMS: Terms = Terms { refused: &["task"], refused_objects: &[], added: &[] };

/// A server with all layers above it.
struct Scene {
    bench: Bench,
    upstream: Arc<Upstream>,
    _news: mpsc::Receiver<Update>,
}

impl Scene {
    fn of(bench: Bench) -> Self {
        Self::with(bench, |_| {})
    }

    fn with(mut bench: Bench, adjust: impl FnOnce(&mut Config)) -> Self {
        let http = Http::at(bench.server.url.clone());
        let mut config = config(Transport::Http(http.clone()));
        config.health_check_interval = Duration::from_hours(10);
        config.timeout = Duration::from_secs(20);
        adjust(&mut config);
        let connector = ToUrl::new(&config, &http, &ServerContext::alone(&bench.shutdown)).expect("a client");
        let connector = std::mem::replace(&mut bench.connector, connector);
        let (updates, news) = mpsc::channel(64);
        let upstream = Upstream::start(config, Arc::new(connector), updates, &bench.shutdown);
        Self { bench, upstream, _news: news }
    }

    /// Waits for the end of discovery, whose success would clear the count of failures.
    async fn discovered(&self) {
        while self.upstream.offer().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn receive(&self, limit: Duration) -> ResponseBody {
        self.discovered().await;
        let call = Call { terms: Some(TERMS), ..call("t") };
        let answered = self.upstream.call(&call, Instant::now() + limit, &EventSender::none()).await;
        answered.expect("an answer").body
    }

    async fn flow(&self) -> Box<ResponseStream> {
        match self.receive(Duration::from_secs(20)).await {
            ResponseBody::Streaming(flow) => flow,
            whole @ ResponseBody::Buffered(_) => panic!("{whole:?}"),
        }
    }

    fn failures(&self) -> u32 {
        self.upstream.breaker().consecutive_failures
    }
}

async fn next(flow: &mut ResponseStream) -> Option<Result<Bytes, Error>> {
    poll_fn(|cx| flow.poll_part(cx)).await
}

async fn broken(flow: &mut ResponseStream) -> Error {
    loop {
        match next(flow).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return error,
            None => panic!("it passed for whole"),
        }
    }
}

fn large(size: usize) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{}"}}],"n":1e400}}"#, r"a\n\u00e9\\".repeat(size / 11))
}

/// Returns the envelope with the id first or last.
fn answer(seen: &ReceivedRequest, result: &str, id_is_last: bool) -> String {
    let id = seen.id();
    if id_is_last {
        format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{id}}}"#)
    } else {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
    }
}

/// Answers calls with `calls`, and lists with empty ones.
fn scripted(
    calls: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static,
) -> impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static {
    move |seen| match seen.method().as_str() {
        method::TOOLS_CALL => calls(seen),
        "tools/list" => vec![result(seen, r#"{"tools":[]}"#)],
        _ => vec![json(202, "")],
    }
}

/// Sends a body in chunks, as servers do that do not know its length beforehand.
fn chunked(body: &str) -> Vec<Step> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let pieces = body.as_bytes().chunks(7_001).map(|piece| chunk(std::str::from_utf8(piece).expect("ASCII")));
    [Step::Say(head.into())].into_iter().chain(pieces).chain([end()]).collect()
}

/// Sends the headers and the first half of an answer.
fn half(body: &str) -> Step {
    let head = format!("HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
    Step::Say(format!("{head}\r\n\r\n{}", &body[..body.len() / 2]))
}

#[tokio::test]
async fn a_large_result_flows_and_a_small_one_does_not_in_both_eras() {
    for (size, flows) in [(60_000, true), (17_000, true), (15_000, false), (10, false)] {
        for variant in 0..8_u8 {
            let (is_modern, id_is_last, in_chunks) = (variant & 1 > 0, variant & 2 > 0, variant & 4 > 0);
            let script = scripted(move |seen| {
                let body = answer(seen, &large(size), id_is_last);
                if in_chunks { chunked(&body) } else { vec![json(200, &body)] }
            });
            let bench = if is_modern { Bench::modern(script).await } else { Bench::legacy(script).await };
            let scene = Scene::of(bench);
            for _ in 0..2 {
                let received = scene.receive(Duration::from_secs(20)).await;
                assert_eq!(matches!(received, ResponseBody::Streaming(_)), flows, "{size} {variant}");
                assert_eq!(scene.upstream.status().running, usize::from(flows), "it holds its place");
                let result = received.collect().await.expect("whole").expect("a result");
                assert_eq!(result.as_str(), large(size));
                assert_eq!(scene.upstream.status().running, 0);
            }
            let counters = scene.upstream.status().counters;
            assert_eq!((counters.calls, counters.failures, scene.failures()), (2, 0, 0));
            let calls: Vec<usize> = scene
                .bench
                .server
                .seen()
                .iter()
                .filter(|seen| seen.method() == method::TOOLS_CALL)
                .map(|seen| seen.connection)
                .collect();
            assert_eq!(calls[0], calls[1], "the connection was used again");
        }
    }
}

#[tokio::test]
async fn body_that_is_no_large_result_is_judged_as_a_whole() {
    let text = "x".repeat(20_000);
    for (body, expected) in [
        (format!(r#"{{"jsonrpc":"2.0","id":$,"error":{{"code":-1,"message":"{text}"}}}}"#), "Ok(Err(-1))"),
        (format!(r#"{{"jsonrpc":"2.0","id":$,"result":{{"resultType":"task","x":"{text}"}}}}"#), "Ok(Ok)"),
        (format!(r#"{{"jsonrpc":"2.0","id":99,"result":{{"x":"{text}"}}}}"#), "Err"),
        (format!(r#"{{"x":"{text}","#), "Err"),
    ] {
        let script = scripted(move |seen| vec![json(200, &body.replace('$', &seen.id()))]);
        let scene = Scene::of(Bench::modern(script).await);
        let call = Call { terms: Some(TERMS), ..call("t") };
        let deadline = Instant::now() + Duration::from_secs(20);
        let outcome = match scene
            .upstream
            .call(&call, deadline, &EventSender::none())
            .await
            .map(|answered| answered.body)
        {
            Ok(ResponseBody::Buffered(Ok(_))) => "Ok(Ok)".to_owned(),
            Ok(ResponseBody::Buffered(Err(error))) => format!("Ok(Err({}))", error.code()),
            Ok(ResponseBody::Streaming(_)) => "it flows".to_owned(),
            Err(_) => "Err".to_owned(),
        };
        assert_eq!(outcome, expected);
        assert_eq!(scene.upstream.status().running, 0);
    }
}

#[tokio::test]
async fn a_server_that_breaks_off_is_counted_once_and_others_go_on() {
    let script = scripted(|seen| vec![half(&answer(seen, &large(60_000), false)), Step::Close]);
    let scene = Scene::of(Bench::modern(script).await);
    for broke in 1..=3 {
        let mut flow = scene.flow().await;
        assert_eq!(scene.failures(), broke - 1, "nothing is known yet");
        assert!(matches!(broken(&mut flow).await, Error::Cut { .. }));
        let status = scene.upstream.status();
        assert_eq!((scene.failures(), status.running), (broke, 0));
        assert_eq!(status.counters.failures, u64::from(broke));
        assert_eq!(next(&mut flow).await, None);
    }
    drop(scene.flow().await);
    assert_eq!(scene.failures(), 3, "who leaves says nothing of the server");
    for _ in 0..2 {
        let mut flow = scene.flow().await;
        assert!(matches!(broken(&mut flow).await, Error::Cut { .. }));
    }
    assert_eq!(scene.upstream.breaker().state, State::Open);
}

#[tokio::test]
async fn a_reader_that_leaves_frees_the_place_and_closes_the_connection() {
    let script = scripted(|seen| vec![half(&answer(seen, &large(60_000), false)), Step::Hang]);
    let mut scene = Scene::of(Bench::modern(script).await);
    let mut flow = scene.flow().await;
    assert!(matches!(next(&mut flow).await, Some(Ok(_))));
    assert_eq!(scene.upstream.status().running, 1);
    drop(flow);
    scene.bench.server.left.recv().await.expect("the server saw it leave");
    let status = scene.upstream.status();
    assert_eq!((status.running, scene.failures()), (0, 0), "that is no fault of the server");
    assert_eq!((status.counters.calls, status.counters.failures), (0, 0));
}

#[tokio::test]
async fn a_flow_that_stalls_is_cut_at_the_deadline_of_its_call() {
    let script = scripted(|seen| vec![half(&answer(seen, &large(60_000), false)), Step::Hang]);
    let scene = Scene::of(Bench::modern(script).await);
    let ResponseBody::Streaming(mut flow) = scene.receive(Duration::from_millis(300)).await else {
        panic!("it flows")
    };
    assert!(matches!(broken(&mut flow).await, Error::TimedOut { .. }));
    let status = scene.upstream.status();
    assert_eq!((status.running, status.counters.failures), (0, 1));
    assert_eq!(scene.failures(), 0, "who gave it so little time cannot judge it");
}

#[tokio::test]
async fn an_answer_beyond_the_cap_is_cut_and_not_shortened() {
    let script = scripted(|seen| chunked(&answer(seen, &large(90_000), false)));
    let scene = Scene::of(Bench::modern(script).await);
    let mut flow = scene.flow().await;
    assert_eq!(broken(&mut flow).await, Error::TooLarge { limit: 64 * 1024 });
}

#[tokio::test]
async fn a_call_that_became_the_probe_while_it_waited_is_not_left_to_its_reader() {
    let script = scripted(|seen| {
        let answer = answer(seen, &large(60_000), false);
        if seen.has("breaks") { vec![half(&answer), Step::Close] } else { vec![json(200, &answer)] }
    });
    let scene = Scene::with(Bench::modern(script).await, |config| {
        config.limits.concurrent_calls = 1;
        config.breaker.threshold = 1;
        config.breaker.timeout = Duration::ZERO;
    });
    scene.discovered().await;
    let breaks = Call { terms: Some(TERMS), ..call("breaks") };
    let deadline = Instant::now() + Duration::from_secs(20);
    let answered = scene.upstream.call(&breaks, deadline, &EventSender::none()).await;
    let ResponseBody::Streaming(mut flow) = answered.expect("an answer").body else { panic!("it flows") };
    let mut waits = Box::pin(scene.receive(Duration::from_secs(20)));
    assert!(futures_util::poll!(&mut waits).is_pending());
    assert_eq!((scene.upstream.status().waiting, scene.upstream.breaker().state), (1, State::Closed));
    assert!(matches!(broken(&mut flow).await, Error::Cut { .. }));
    assert_eq!(scene.upstream.breaker().state, State::Open);
    assert!(matches!(waits.await, ResponseBody::Buffered(Ok(_))), "others wait for what it says");
    assert_eq!(scene.upstream.breaker().state, State::Closed);
}
