//! Tests of server requests: which client gets them, and how they end.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::super::pending::{Pending, Purpose, RequestTicket};
use super::*;
use crate::connection::{Call, CallEvent, EventReceiver, EventSender, Question};
use crate::session_affinity::Affinity;
use runtime::memory::budget;

/// A channel with server requests, and the messages that are sent to it.
struct Channel {
    pending: Arc<Pending>,
    questions: Questions,
    posted: mpsc::Receiver<Bytes>,
    tasks: Shutdown,
}

impl Channel {
    fn new() -> Self {
        let (post, posted) = mpsc::channel(64);
        let tasks = Shutdown::new();
        let questions = Questions::new(&"s".into(), &tasks, move |answer| {
            let post = post.clone();
            Box::pin(async move { post.send(answer).await.expect("the test reads") })
        });
        Self { pending: Pending::new(0, |_| {}), questions, posted, tasks }
    }

    /// Opens a call of `owner`, whose client supports forms.
    fn call(&self, owner: Owner) -> (RequestTicket, EventReceiver) {
        self.call_with(owner, &json!({"elicitation": {}}))
    }

    fn call_with(&self, owner: Owner, capabilities: &serde_json::Value) -> (RequestTicket, EventReceiver) {
        let (event_sender, receiver) = EventSender::new(8);
        let mut call = Call { owner, ..Call::of_gateway(method::TOOLS_CALL, None) };
        call.sender.capabilities = Raw::of(capabilities);
        let ticket = self.pending.open(&event_sender, Purpose::of(&call)).expect("open");
        assert!(self.pending.begin_writing(ticket.id()));
        (ticket, receiver)
    }

    /// Sends a server request that does not name its call.
    fn ask(&self, id: u64, method: &str) {
        let pending = Arc::clone(&self.pending);
        self.questions.take(request(id, method), move |owner| pending.attribute(owner));
    }

    /// Sends a server request on the stream of a call.
    fn ask_on(&self, ticket: &RequestTicket, id: u64) {
        let (pending, call) = (Arc::clone(&self.pending), ticket.id());
        self.questions.take(request(id, method::ELICITATION_CREATE), move |_| pending.attribute_to(call));
    }

    /// Returns the next message to the server: the id, and the result or the code of the error.
    async fn answer(&mut self) -> (u64, Result<String, i64>) {
        let posted = self.posted.recv().await.expect("an answer");
        let Ok(Message::Response(response)) = Message::from_server(&posted) else { panic!("{posted:?}") };
        let id = response.id.and_then(|id| id.as_u64()).expect("our id");
        (id, response.reply.map(|result| result.as_str().to_owned()).map_err(|error| error.code()))
    }
}

fn request(id: u64, method: &str) -> Request {
    let params = Some(Raw::of(&json!({"message": "?"})));
    Request { id: RequestId::from_u64(id), method: method.into(), params }
}

async fn question(receiver: &mut EventReceiver) -> Question {
    match receiver.recv().await {
        Some(CallEvent::Question(question)) => question,
        other => panic!("a question, not {other:?}"),
    }
}

fn accept(question: Question) {
    question.answer(Ok(Raw::of(&json!({"action": "accept"}))));
}

const ACCEPTED: &str = r#"{"action":"accept"}"#;

#[tokio::test(start_paused = true)]
async fn a_question_goes_to_the_only_owner_and_its_answer_back_under_the_servers_id() {
    let mut channel = Channel::new();
    let owner = Owner::new();
    let (_oldest, mut receiver) = channel.call(owner);
    let (_newer, _silent) = channel.call(owner);
    let _upkeep = channel.pending.open(&EventSender::none(), Purpose::Upkeep).expect("open");
    channel.ask(40, method::PING);
    assert_eq!(channel.answer().await, (40, Ok("{}".into())));
    channel.ask(41, method::ELICITATION_CREATE);
    let request = question(&mut receiver).await;
    assert_eq!(request.params.as_ref().map(Raw::as_str), Some(r#"{"message":"?"}"#));
    accept(request);
    assert_eq!(channel.answer().await, (41, Ok(ACCEPTED.into())));
    assert!(channel.tasks.wait(Duration::from_secs(1)).await);
    assert_eq!(channel.questions.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_is_charged_until_it_was_sent() {
    const SIZE: usize = 8 << 20;
    let mut channel = Channel::new();
    let (_call, mut receiver) = channel.call(Owner::new());
    channel.ask(1, method::ELICITATION_CREATE);
    let text = "x".repeat(SIZE);
    question(&mut receiver)
        .await
        .answer(Ok(Raw::of(&json!({"action": "accept", "content": {"text": text}}))));
    let posted = channel.posted.recv().await.expect("an answer");
    assert!(posted.len() > SIZE && budget().usage().used >= SIZE);
    drop(posted);
    assert!(budget().usage().used < SIZE);
}

#[tokio::test(start_paused = true)]
async fn server_request_of_unknown_owner_is_sent_to_nobody() {
    let mut channel = Channel::new();
    channel.ask(1, method::ELICITATION_CREATE);
    assert_eq!(channel.answer().await, (1, Err(code::CONNECTION_CLOSED)), "no call is open");
    let (one, mut first) = channel.call(Owner::new());
    let (two, mut second) = channel.call(Owner::new());
    channel.ask(2, method::ELICITATION_CREATE);
    assert_eq!(channel.answer().await, (2, Err(code::CONNECTION_CLOSED)));
    // A request on the stream of a call belongs to that call.
    channel.ask_on(&one, 3);
    accept(question(&mut first).await);
    assert_eq!(channel.answer().await, (3, Ok(ACCEPTED.into())));
    assert!(second.try_recv().is_err());
    // Cancelled, but the server may still work on it.
    let cancelled = one.id();
    drop(one);
    tokio::time::advance(Duration::from_mins(10)).await;
    channel.ask(4, method::ELICITATION_CREATE);
    assert_eq!(channel.answer().await, (4, Err(code::CONNECTION_CLOSED)));
    assert!(second.try_recv().is_err());
    let late = Response { id: Some(RequestId::from_u64(cancelled)), reply: Ok(Raw::empty_object()) };
    assert!(!channel.pending.answer(late));
    channel.ask(5, method::ELICITATION_CREATE);
    accept(question(&mut second).await);
    assert_eq!(channel.answer().await, (5, Ok(ACCEPTED.into())), "its late answer ended it");
    drop(two);
}

#[tokio::test(start_paused = true)]
async fn a_client_is_asked_only_what_it_declared() {
    let mut channel = Channel::new();
    let (_call, mut receiver) = channel.call_with(Owner::new(), &json!({"sampling": {}}));
    for (id, name) in [(1, method::ROOTS_LIST), (2, method::ELICITATION_CREATE), (3, "server/knows\n")] {
        channel.ask(id, name);
        assert_eq!(channel.answer().await, (id, Err(code::METHOD_NOT_FOUND)), "{name}");
    }
    channel.ask(4, method::SAMPLING_CREATE_MESSAGE);
    accept(question(&mut receiver).await);
    assert_eq!(channel.answer().await, (4, Ok(ACCEPTED.into())));
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_with_its_call_or_goes_on_with_another_of_the_same_owner() {
    let mut channel = Channel::new();
    let owner = Owner::new();
    let (short, mut first) = channel.call(owner);
    let (long, mut second) = channel.call(owner);
    channel.ask(1, method::ELICITATION_CREATE);
    let mut request = question(&mut first).await;
    short.done();
    request.withdrawn().await;
    let mut again = question(&mut second).await;
    drop(long);
    again.withdrawn().await;
    assert_eq!(channel.answer().await, (1, Err(code::CONNECTION_CLOSED)));
}

#[tokio::test(start_paused = true)]
async fn either_side_may_let_go_of_a_question() {
    let mut channel = Channel::new();
    let (_call, mut receiver) = channel.call(Owner::new());
    channel.ask(1, method::ELICITATION_CREATE);
    let mut request = question(&mut receiver).await;
    let cancel = |id: u64| Notification {
        method: method::CANCELLED.into(),
        params: Some(Raw::of(&json!({"requestId": id}))),
    };
    assert!(!channel.questions.is_withdrawn_by(&cancel(9)), "that is no question");
    assert!(channel.questions.is_withdrawn_by(&cancel(1)));
    request.withdrawn().await;
    channel.ask(2, method::ELICITATION_CREATE);
    drop(question(&mut receiver).await);
    assert_eq!(channel.answer().await, (2, Err(code::CONNECTION_CLOSED)), "and none for the first");
    assert!(channel.tasks.wait(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_repeated_is_asked_once_and_too_many_are_dropped() {
    let mut channel = Channel::new();
    let (_call, mut receiver) = channel.call(Owner::new());
    channel.ask(1, method::ELICITATION_CREATE);
    channel.ask(1, method::ELICITATION_CREATE);
    accept(question(&mut receiver).await);
    assert_eq!(channel.answer().await, (1, Ok(ACCEPTED.into())));
    assert!(receiver.try_recv().is_err());
    // No task runs here, so all stay open.
    for id in 0..300 {
        channel.ask(id, method::PING);
    }
    assert_eq!(channel.questions.count(), MAX_OPEN);
    for id in 0..256 {
        assert_eq!(channel.answer().await, (id, Ok("{}".into())));
    }
    assert!(channel.tasks.wait(Duration::from_secs(1)).await);
    assert!(channel.posted.try_recv().is_err());
}

/// A server request with a text of `bytes` bytes, in a message that is longer by as many.
fn long_message(id: u64, bytes: usize) -> Bytes {
    let text = "x".repeat(bytes);
    let message =
        json!({"jsonrpc": "2.0", "id": id, "method": method::PING, "params": {"a": text}, "more": text});
    Bytes::from(message.to_string())
}

fn request_in(message: &Bytes) -> Request {
    match Message::from_server(message) {
        Ok(Message::Request(request)) => request,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn so_many_bytes_of_questions_are_open_and_a_single_one_is_always_taken() {
    let mut channel = Channel::new();
    let take = |channel: &Channel, id, bytes| {
        channel.questions.take(request_in(&long_message(id, bytes)), |_| Attribution::Nobodys);
    };
    for (at_once, expected) in
        [(vec![MAX_BYTES + 1, 1], 1), (vec![MAX_BYTES / 2 - 100, MAX_BYTES / 2, 101, 1], 3)]
    {
        for (id, bytes) in (1..).zip(at_once) {
            take(&channel, id, bytes);
        }
        assert_eq!(channel.questions.count(), expected);
        for id in 1..=u64::try_from(expected).expect("few") {
            // The last request with room is the fourth.
            let id = if id == 3 { 4 } else { id };
            assert_eq!(channel.answer().await, (id, Ok("{}".into())));
        }
    }
    assert!(channel.tasks.wait(Duration::from_secs(1)).await);
    assert_eq!(channel.questions.0.lock().bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn stored_server_request_holds_only_its_own_bytes() {
    let channel = Channel::new();
    let message = long_message(1, 1000);
    let request = request_in(&message);
    assert!(!message.is_unique(), "it shares the message it came in");
    channel.questions.take(request, |_| Attribution::Nobodys);
    assert_eq!(channel.questions.count(), 1, "nobody lets tasks run here, so it stays open");
    assert!(message.is_unique());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_questions_is_a_bounded_number_of_log_lines() {
    let channel = Channel::new();
    let sink = runtime::telemetry::sink::Sink::default();
    let writer = sink.clone();
    let lines = tracing_subscriber::fmt().with_writer(move || writer.clone()).json().flatten_event(true);
    let _log = tracing::subscriber::set_default(lines.finish());
    for id in 0..1000 {
        channel.ask(id, method::PING);
    }
    assert_eq!(sink.text().lines().count(), 50, "of 744 that were dropped");
    tokio::time::advance(Duration::from_secs(1)).await;
    for id in 1000..1300 {
        channel.ask(id, method::PING);
    }
    let text = sink.text();
    let next: serde_json::Value = serde_json::from_str(text.lines().nth(50).expect("a line")).expect("JSON");
    assert_eq!(next["suppressed"], 694, "and the next one says how many were not written");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_answers_gives_way_after_a_minute_if_others_wait() {
    let mut channel = Channel::new();
    let count = u64::try_from(MAX_OPEN).expect("few");
    let mut request = Vec::new();
    for id in 0..count {
        let (call, mut receiver) = channel.call(Owner::new());
        channel.ask_on(&call, id);
        request.push((question(&mut receiver).await, call, receiver));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let (call, mut receiver) = channel.call(Owner::new());
    channel.ask_on(&call, count);
    assert_eq!(channel.questions.count(), MAX_OPEN);
    assert!(receiver.try_recv().is_err(), "dropped: the others may still be answered");
    tokio::time::advance(ANSWER_LIMIT).await;
    channel.ask_on(&call, count + 1);
    accept(question(&mut receiver).await);
    assert_eq!(channel.answer().await, (0, Err(code::CONNECTION_CLOSED)), "the oldest");
    assert_eq!(channel.answer().await, (count + 1, Ok(ACCEPTED.into())));
}

#[tokio::test(start_paused = true)]
async fn on_a_private_connection_a_question_waits_for_the_first_call() {
    let mut channel = Channel::new();
    channel.pending.open_own_session(Affinity::session());
    channel.ask(1, method::ROOTS_LIST);
    let (call, mut receiver) = channel.call_with(Owner::new(), &json!({"roots": {}}));
    accept(question(&mut receiver).await);
    assert_eq!(channel.answer().await, (1, Ok(ACCEPTED.into())));
    drop(call);
    channel.ask(2, method::ROOTS_LIST);
    assert_eq!(channel.answer().await, (2, Err(code::CONNECTION_CLOSED)), "and not for ever");
}

#[tokio::test(start_paused = true)]
async fn no_clock_runs_that_may_be_of_the_call_that_asks() {
    let channel = Channel::new();
    let owner = Owner::new();
    let (_oldest, mut receiver) = channel.call(owner);
    let (event_sender, _silent) = EventSender::new(8);
    let call = Call { owner, ..Call::of_gateway(method::TOOLS_CALL, None) };
    let asks = channel.pending.open(&event_sender, Purpose::of(&call)).expect("open");
    assert!(channel.pending.begin_writing(asks.id()));
    channel.ask(1, method::ELICITATION_CREATE);
    let people = async {
        let request = question(&mut receiver).await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        accept(request);
    };
    let started = tokio::time::Instant::now();
    tokio::join!(people, event_sender.expired(started + Duration::from_secs(10)));
    assert_eq!(started.elapsed().as_secs(), 310);
}

#[tokio::test(start_paused = true)]
async fn however_many_calls_were_cancelled_none_of_them_asks_somebody_else() {
    for (is_anothers, expected) in [(false, Ok(ACCEPTED.into())), (true, Err(code::CONNECTION_CLOSED))] {
        let mut channel = Channel::new();
        let (owner, hasty) = (Owner::new(), Owner::new());
        let (_call, mut receiver) = channel.call(owner);
        let cancelled: Vec<u64> = (0..1024).map(|_| channel.call(hasty).0.id()).collect();
        if is_anothers {
            drop(channel.call(hasty)); // more than are kept
        }
        for id in cancelled {
            let late = Response { id: Some(RequestId::from_u64(id)), reply: Ok(Raw::empty_object()) };
            assert!(!channel.pending.answer(late));
        }
        drop(channel.call(owner));
        channel.ask(1, method::ELICITATION_CREATE);
        if !is_anothers {
            accept(question(&mut receiver).await);
        }
        assert_eq!(channel.answer().await, (1, expected));
        assert!(receiver.try_recv().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn oldest_request_gives_way_after_a_minute_without_an_answer() {
    let mut channel = Channel::new();
    let (_call, _receiver) = channel.call(Owner::new());
    channel.ask(1, method::ELICITATION_CREATE);
    tokio::time::sleep(Duration::from_secs(30)).await;
    channel.ask(2, method::ELICITATION_CREATE);
    channel.questions.end_unanswered();
    assert_eq!((channel.questions.unanswered_since(), channel.questions.count()), (None, 2), "it has time");
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(channel.questions.unanswered_since().is_some());
    channel.questions.end_unanswered();
    assert_eq!(channel.answer().await, (1, Err(-32000)));
    assert_eq!((channel.questions.unanswered_since(), channel.questions.count()), (None, 1));
}
