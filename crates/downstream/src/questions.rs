//! Server requests that a legacy client has not answered yet.
//!
//! ```text
//!          ask                     the client's response
//! Question ───▶ open under its id ───────────────────────▶ answered
//!                │  the server gives up
//!                └────────────────────────────────────────▶ withdrawn; the client is notified
//! ```
//!
//! Invariants: an id is used once in a session. A response without a matching open request changes
//! nothing. At most `MAX_OPEN` requests are open, and further ones are refused, unless the
//! client has not answered the oldest one for a minute: that one gives way. When the call or the
//! session ends, its requests end.
//!
//! Not here: which client can get which request (`gateway::era`), and the stream that carries it
//! (`exchange`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use serde::Serialize;
use tokio::time::Instant;

use json::Raw;
use protocol::{Message, Notification, Request, RequestId, Response, method};
use runtime::telemetry::limit::Limit;
use upstream::{ANSWER_LIMIT, Question};

/// Limit of open requests of one session.
const MAX_OPEN: usize = 256;
/// The reason in the cancellation when the answer is no longer needed.
const REASON: &str = "nobody waits for the answer any more";

/// The open server requests of one session.
#[derive(Debug, Default)]
pub struct Questions(Mutex<QuestionTable>);

#[derive(Debug, Default)]
struct QuestionTable {
    last_id: u64,
    /// By id. The oldest one has the lowest.
    open: BTreeMap<u64, (Instant, Question)>,
    is_closed: bool,
}

impl QuestionTable {
    /// If there is no room, takes the oldest request out that its client has not answered for a minute.
    fn take_unanswered(&mut self) -> Option<Question> {
        if self.open.len() < MAX_OPEN {
            return None;
        }
        let oldest = self.open.first_entry().filter(|oldest| oldest.get().0.elapsed() >= ANSWER_LIMIT)?;
        Some(oldest.remove().1)
    }
}

impl Questions {
    /// Opens a server request and returns the message for the client. Returns none, which refuses
    /// it, if too many are open or if the session has ended.
    pub fn ask(self: &Arc<Self>, question: Question) -> Option<(OpenQuestion, Message)> {
        // Its server is answered when it is dropped, without the lock.
        let gives_way = self.lock().take_unanswered();
        drop(gives_way);
        let mut table = self.lock();
        if table.is_closed || table.open.len() >= MAX_OPEN {
            return if table.is_closed { None } else { Limit::SessionQuestions.met(None) };
        }
        table.last_id += 1;
        let id = table.last_id;
        let (method, params) = (question.method.clone(), question.params.clone());
        table.open.insert(id, (Instant::now(), question));
        let request = Request { id: RequestId::from_u64(id), method, params };
        Some((OpenQuestion { questions: Arc::clone(self), id }, Message::Request(request)))
    }

    /// Handles a response of the client.
    pub fn answer(&self, response: Response) {
        let id = response.id.as_ref().and_then(RequestId::as_u64);
        let question = id.and_then(|id| self.lock().open.remove(&id));
        if let Some((_, question)) = question {
            question.answer(response.reply);
        }
    }

    /// Refuses the request `id`, which the client was not sent.
    pub(super) fn refuse(&self, id: &RequestId) {
        // The server is answered when it is dropped, without the lock.
        let refused = id.as_u64().and_then(|id| self.lock().open.remove(&id));
        drop(refused);
    }

    /// Refuses all open and later requests, because the client can no longer answer.
    pub fn close(&self) {
        let mut table = self.lock();
        table.is_closed = true;
        table.open.clear();
    }

    /// Whether the request `id` is open.
    pub fn is_open(&self, id: &RequestId) -> bool {
        id.as_u64().is_some_and(|id| self.lock().open.contains_key(&id))
    }

    /// The number of open requests.
    pub fn count(&self) -> usize {
        self.lock().open.len()
    }

    fn lock(&self) -> MutexGuard<'_, QuestionTable> {
        // No code panics while it holds the lock, and every write leaves a valid table.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open server request. Dropping it refuses the request, if it is still open.
#[derive(Debug)]
pub struct OpenQuestion {
    questions: Arc<Questions>,
    id: u64,
}

/// How a server request ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The client answered, or can no longer answer.
    Answered,
    /// The server withdrew it.
    Withdrawn,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled {
    request_id: u64,
    reason: &'static str,
}

impl OpenQuestion {
    /// Polls for the end. An answer does not wake the task, because there is nothing to do then.
    pub(crate) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<End> {
        match self.questions.lock().open.get_mut(&self.id) {
            None => Poll::Ready(End::Answered),
            Some((_, question)) => question.poll_withdrawn(cx).map(|()| End::Withdrawn),
        }
    }

    /// Whether it is still open.
    pub fn is_open(&self) -> bool {
        self.questions.lock().open.contains_key(&self.id)
    }

    /// Withdraws the request and returns the notification for the client.
    pub fn cancel(self) -> Message {
        let params = Raw::of(&Cancelled { request_id: self.id, reason: REASON });
        Message::Notification(Notification { method: method::CANCELLED.into(), params: Some(params) })
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.questions.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use protocol::Reply;
    use upstream::connection::Answer;
    use upstream::{CallEvent, EventSender};

    async fn question() -> (Question, Answer) {
        let (event_sender, mut receiver) = EventSender::new(1);
        let answer = event_sender.ask("roots/list".into(), None);
        match receiver.recv().await {
            Some(CallEvent::Question(question)) => (question, answer),
            other => panic!("{other:?}"),
        }
    }

    fn response(id: &str, reply: Reply) -> Response {
        let id = Raw::parse(&bytes::Bytes::copy_from_slice(id.as_bytes())).expect("JSON");
        Response { id: RequestId::from_raw(id), reply }
    }

    fn nothing() -> Raw {
        Raw::empty_object()
    }

    async fn end(open_request: &OpenQuestion) -> End {
        std::future::poll_fn(|cx| open_request.poll_end(cx)).await
    }

    #[tokio::test]
    async fn only_the_response_with_its_very_id_answers_a_question() {
        let questions = Arc::new(Questions::default());
        let (one, answer) = question().await;
        let (open_request, request) = questions.ask(one).expect("room");
        assert_eq!(request.encode(), r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
        for foreign in ["2", "0", "\"1\"", "-1", "01e0", "18446744073709551616"] {
            let Ok(id) = std::panic::catch_unwind(|| response(foreign, Ok(nothing()))) else { continue };
            questions.answer(id);
        }
        questions.answer(Response { id: None, reply: Ok(nothing()) });
        assert!(open_request.is_open() && questions.count() == 1, "nothing of that was meant");
        questions.answer(response("1", Ok(Raw::of(&json!({"roots": []})))));
        assert_eq!(end(&open_request).await, End::Answered);
        assert_eq!(answer.await.expect("an answer").expect("a result").as_str(), r#"{"roots":[]}"#);
        questions.answer(response("1", Ok(nothing())));
        drop(open_request);
        let (_second, request) = questions.ask(question().await.0).expect("room");
        assert!(request.encode().starts_with(br#"{"jsonrpc":"2.0","id":2,"#), "no id comes twice");
    }

    #[tokio::test]
    async fn a_question_goes_when_nobody_waits_for_its_answer_and_when_its_call_ends() {
        let questions = Arc::new(Questions::default());
        let (withdrawn, answer) = question().await;
        let (open_request, _) = questions.ask(withdrawn).expect("room");
        drop(answer);
        assert_eq!(end(&open_request).await, End::Withdrawn);
        assert_eq!(
            open_request.cancel().encode(),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"nobody waits for the answer any more"}}"#
        );
        let (ended, answer) = question().await;
        drop(questions.ask(ended).expect("room"));
        assert!(answer.await.is_none(), "refused");
        let (open, answer) = question().await;
        let (open_request, _) = questions.ask(open).expect("room");
        questions.close();
        assert!(answer.await.is_none() && end(&open_request).await == End::Answered);
        let (late, answer) = question().await;
        assert!(questions.ask(late).is_none() && answer.await.is_none());
        assert_eq!(questions.count(), 0);
    }

    /// Opens as many as there may be.
    async fn filled(questions: &Arc<Questions>) -> Vec<((OpenQuestion, Message), Answer)> {
        let mut open = Vec::new();
        for _ in 0..MAX_OPEN {
            let (one, answer) = question().await;
            open.push((questions.ask(one).expect("room"), answer));
        }
        open
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_question_gives_way_after_a_minute_if_there_is_no_room() {
        let questions = Arc::new(Questions::default());
        let mut open = filled(&questions).await;
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert!(questions.ask(question().await.0).is_none(), "its client has time to answer");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let another = question().await;
        let _another = questions.ask(another.0).expect("room");
        let ((first, _), answer) = open.remove(0);
        assert!(!first.is_open() && answer.await.is_none(), "it is refused");
        assert!(open[0].0.0.is_open());
    }

    #[tokio::test]
    async fn open_questions_are_bounded() {
        let questions = Arc::new(Questions::default());
        let mut open = filled(&questions).await;
        let (one_more, answer) = question().await;
        assert!(questions.ask(one_more).is_none());
        assert!(answer.await.is_none(), "refused at once");
        open.pop();
        assert!(questions.ask(question().await.0).is_some());
    }
}
