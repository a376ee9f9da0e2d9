//! Server requests outside of calls, on a stream that the client of a session reads all the time.
//!
//! Invariants: a request reaches the client only if it declared the ability. A request that is open when the stream
//! ends is asked elsewhere or refused. The client answers it like any other, because the table is the session's.
//!
//! Not here: server requests of calls (`exchange`), and which stream is chosen (`upstream::session_affinity`).

use std::sync::Arc;

use super::exchange::withdrawn;
use super::questions::{OpenQuestion, Questions};
use gateway::{Caller, Gateway, era};
use protocol::Message;
use runtime::memory::Account;
use upstream::{CallEvent, EventReceiver, EventSender, Question, SenderLoan};

/// Server requests that may wait for a slow reader.
const WAITING: usize = 16;

/// The server requests of one session that belong to no call.
pub(super) struct OutsideCalls {
    gateway: Gateway,
    caller: Arc<Caller>,
    questions: Arc<Questions>,
    receiver: EventReceiver,
    open_requests: Vec<OpenQuestion>,
    /// So that the inlet does not end.
    #[allow(dead_code)] // held for its drop
    event_sender: EventSender,
    #[allow(dead_code)] // held for its drop
    loan: Option<SenderLoan>,
}

impl OutsideCalls {
    /// Those of `caller`, for as long as this is kept.
    pub(super) fn of(gateway: &Gateway, caller: &Arc<Caller>, questions: &Arc<Questions>) -> Self {
        let (event_sender, receiver) =
            EventSender::paid_by(WAITING, Account::of(Some(caller.principal.id())));
        let loan = gateway.lend(caller, &event_sender);
        let (gateway, caller, questions) = (gateway.clone(), Arc::clone(caller), Arc::clone(questions));
        Self { gateway, caller, questions, receiver, open_requests: Vec::new(), event_sender, loan }
    }

    /// The next message for the client. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Message {
        loop {
            tokio::select! {
                biased;
                Some(event) = self.receiver.recv() => {
                    if let CallEvent::Question(question) = event
                        && let Some(request) = self.ask(question)
                    {
                        return request;
                    }
                }
                message = withdrawn(&mut self.open_requests) => return message,
            }
        }
    }

    /// The request for the client; `None` refuses the question.
    fn ask(&mut self, question: Question) -> Option<Message> {
        let question = Some(question).filter(|question| era::can_ask(&self.caller, question))?;
        self.gateway.note_question(&self.caller, &question);
        let (open_requests, request) = self.questions.ask(question)?;
        self.open_requests.push(open_requests);
        Some(request)
    }
}
