//! How a flow ends, under paused time: whole, or cut and said so.

use std::convert::Infallible;

use http_body_util::{BodyExt, Empty};
use tokio::sync::mpsc;

use super::testing::{BodyWriter, CAP, LEFT, Pipe, TERMS, flow};
use super::*;

fn say(writer: &BodyWriter, text: &'static str) {
    writer.send(Ok(text)).expect("somebody reads");
}

async fn next(flow: &mut ResponseStream) -> Option<Result<Bytes, Error>> {
    poll_fn(|cx| flow.poll_part(cx)).await
}

/// All parts, or how it broke.
async fn all(flow: &mut ResponseStream) -> Result<String, Error> {
    let mut whole = String::new();
    while let Some(part) = next(flow).await {
        whole.push_str(std::str::from_utf8(&part?).expect("text"));
    }
    Ok(whole)
}

#[tokio::test(start_paused = true)]
async fn the_parts_are_the_result() {
    let pieces = [r#"{"jsonrpc":"2.0","#, r#""result":{"a":"#, "1e400", r#" },"id""#, ":7}", "\n"];
    let (mut flow, writer) = flow();
    for piece in pieces {
        say(&writer, piece);
    }
    drop(writer);
    assert_eq!(all(&mut flow).await, Ok(r#"{"a":1e400 }"#.into()));
    assert_eq!(next(&mut flow).await, None, "it stays at its end");

    let (whole, writer) = self::flow();
    for piece in pieces {
        say(&writer, piece);
    }
    drop(writer);
    assert_eq!(whole.collect().await.expect("a result").as_str(), r#"{"a":1e400 }"#);
}

/// A flow of which all that comes has come, and was taken.
fn arrived(text: &'static str) -> ResponseStream {
    let mut edit = EnvelopeEdit::new(7, TERMS);
    let taken = edit.take(&Bytes::from_static(text.as_bytes())).expect("a result");
    let nothing = Empty::new().map_err(|never: Infallible| match never {});
    ResponseStream::new(Box::new(nothing), edit, VecDeque::from([taken]), (CAP, CAP))
}

#[tokio::test(start_paused = true)]
async fn complete_valid_answer_is_returned_at_once() {
    let mut flow = arrived(r#"{"jsonrpc":"2.0","result":{"a":1},"id":7}"#);
    let (result, ending) = flow.arrived().expect("it is all there");
    assert_eq!((&result[..], &ending[..]), (&br#"{"a":1"#[..], &b"}"[..]));
    assert_eq!(next(&mut flow).await, None, "that was its end");

    let mut flow = arrived(r#"{"jsonrpc":"2.0","result":{"a":1}}"#);
    assert_eq!(flow.arrived(), None, "it answers nothing");
    let broken = all(&mut flow).await.expect_err("nor is it given in parts");
    assert_eq!(broken.to_string(), "the answer is not a valid MCP message: it does not answer the request");
}

#[tokio::test(start_paused = true)]
async fn partial_answer_is_not_complete() {
    let (mut flow, writer) = flow();
    say(&writer, r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#);
    assert_eq!(flow.arrived(), None, "nobody has looked yet, and more may come");
    drop(writer);
    assert_eq!(all(&mut flow).await, Ok(r#"{"a":1}"#.into()));

    let (writer, receiver) = mpsc::unbounded_channel();
    let mut flow = arrived(r#"{"jsonrpc":"2.0","result":{"a":1},"id":7}"#);
    flow.source = Some(Box::new(Pipe(receiver)));
    assert_eq!(flow.arrived(), None, "its server may go on");
    say(&writer, "x");
    assert!(all(&mut flow).await.is_err(), "and then it is no answer");

    let mut flow = arrived(r#"{"jsonrpc":"2.0","result":{"a":1},"id":7}"#);
    assert!(next(&mut flow).await.is_some_and(|part| part.is_ok()));
    assert_eq!(flow.arrived(), None, "some of it was given");
    assert_eq!(all(&mut flow).await, Ok("}".into()));
}

#[tokio::test(start_paused = true)]
async fn broken_stream_is_an_error_and_never_the_end() {
    let start = r#"{"jsonrpc":"2.0","result":{"a":1}"#;
    for (rest, error) in [
        (Some(Ok(r#","id":8}"#)), "the answer is not a valid MCP message: it does not answer the request"),
        (Some(Ok("}")), "the answer is not a valid MCP message: it does not answer the request"),
        (
            Some(Ok(r#","error":{}}"#)),
            "the answer is not a valid MCP message: it is not an object as the result",
        ),
        (None, "the answer is not a valid MCP message: it ended too early"),
        (Some(Err(Error::Cut { reason: "reset".into() })), "the answer was cut off: reset"),
        (
            Some(Ok(r#","x":"0123456789012345678901234567890123456789"}"#)),
            "the answer is larger than 64 bytes",
        ),
    ] {
        let (mut flow, writer) = flow();
        say(&writer, start);
        assert_eq!(next(&mut flow).await, Some(Ok(Bytes::from_static(br#"{"a":1"#))));
        if let Some(rest) = rest {
            writer.send(rest).expect("somebody reads");
        }
        drop(writer);
        assert_eq!(all(&mut flow).await.map_err(|error| error.to_string()), Err(error.to_owned()));
        assert_eq!(next(&mut flow).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_cut_at_the_deadline() {
    let (mut flow, writer) = flow();
    say(&writer, r#"{"jsonrpc":"2.0","result":{"a":1"#);
    assert!(matches!(next(&mut flow).await, Some(Ok(_))));
    let started = Instant::now();
    assert_eq!(next(&mut flow).await, Some(Err(Error::TimedOut { after: LEFT })));
    assert_eq!(started.elapsed(), LEFT);
    assert!(writer.is_closed(), "the connection was let go");
}

#[tokio::test(start_paused = true)]
async fn drops_of_an_answer_win_no_time() {
    let (mut flow, writer) = flow();
    say(&writer, r#"{"jsonrpc":"2.0","result":{"a":"#);
    let started = Instant::now();
    let cut = async { (all(&mut flow).await, started.elapsed()) };
    let (cut, ()) = tokio::join!(cut, async {
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let _ = writer.send(Ok("1"));
        }
    });
    assert_eq!(cut, (Err(Error::TimedOut { after: LEFT }), LEFT));
}

#[tokio::test(start_paused = true)]
async fn parts_of_an_answer_extend_the_time_up_to_the_last_moment() {
    let (mut flow, writer) = flow();
    say(&writer, r#"{"jsonrpc":"2.0","result":{"a":"#);
    let started = Instant::now();
    flow.clock.moves = Some(Moves { idle: LEFT, last: started + LEFT * 3 });
    let cut = async { (all(&mut flow).await.is_err(), started.elapsed()) };
    let (cut, ()) = tokio::join!(cut, async {
        for _ in 0..20 {
            tokio::time::sleep(LEFT / 2).await;
            let _ = writer.send(Ok("1"));
        }
    });
    assert_eq!(cut, (true, LEFT * 3));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_reader_is_not_the_servers() {
    let (mut flow, writer) = flow();
    say(&writer, r#"{"jsonrpc":"2.0","result":{"a":1"#);
    assert!(matches!(next(&mut flow).await, Some(Ok(_))));
    say(&writer, r#"},"id":7}"#);
    tokio::time::sleep(LEFT * 5).await;
    drop(writer);
    assert_eq!(all(&mut flow).await, Ok("}".into()));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_for_ever_is_cut_too() {
    let (mut flow, writer) = flow();
    say(&writer, r#"{"jsonrpc":"2.0","result":{"a":1"#);
    assert!(matches!(next(&mut flow).await, Some(Ok(_))));
    tokio::time::sleep(READER_LIMIT).await;
    assert_eq!(next(&mut flow).await, Some(Err(Error::Cut { reason: "its reader took too long".into() })));
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_connection() {
    let ((mut flow, writer), closing) = (flow(), CancellationToken::new());
    flow.cut_by(closing.clone());
    say(&writer, r#"{"jsonrpc":"2.0","result":{"a":1"#);
    assert!(matches!(next(&mut flow).await, Some(Ok(_))));
    closing.cancel();
    assert_eq!(next(&mut flow).await, Some(Err(Error::Cut { reason: "the connection was closed".into() })));
}
