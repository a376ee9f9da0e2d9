//! A request about a task, with everything that its server says meanwhile passed on under the
//! client's own task ids.

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::ids::Ids;
use super::{CallResult, performed};
use crate::manager::{Error, Manager, RoutedRequest};
use json::Raw;
use protocol::Notification;
use runtime::memory::Account;
use upstream::{CallEvent, EventSender, Question};

/// Notices that may wait for their reader.
const NOTICES: usize = 128;

/// Makes the request.
pub(super) async fn perform(
    manager: &Manager,
    request: Result<RoutedRequest, Error>,
    event_sender: &EventSender,
    ids: Ids<'_>,
) -> CallResult {
    let request = request?;
    let (own, mut receiver) = EventSender::paid_by(NOTICES, Account::of(request.call.principal.as_ref()));
    let call = performed(manager, Ok(request), &own);
    tokio::pin!(call);
    let mut questions = FuturesUnordered::new();
    let done = loop {
        tokio::select! {
            biased;
            Some(event) = receiver.recv() => match event {
                CallEvent::Notice(notification) => event_sender.offer(notice(notification, ids)),
                CallEvent::Question(question) => questions.push(ask(question, event_sender, ids)),
                CallEvent::Pause(after) => event_sender.pause(after),
            },
            Some(()) = questions.next(), if !questions.is_empty() => {}
            done = &mut call => break done,
        }
    };
    while let Ok(event) = receiver.try_recv() {
        if let CallEvent::Notice(notification) = event {
            event_sender.offer(notice(notification, ids));
        }
    }
    done
}

fn notice(notice: Notification, ids: Ids<'_>) -> Notification {
    let params = notice.params.map(|params| ids.related(&params));
    Notification { params, ..notice }
}

/// Asks the client. The question ends when the server withdraws it.
async fn ask(mut question: Question, event_sender: &EventSender, ids: Ids<'_>) {
    let params = question.params.as_ref().map(|params: &Raw| ids.related(params));
    let answer = event_sender.ask_for(question.server.clone(), question.method.clone(), params);
    let reply = tokio::select! {
        reply = answer => reply,
        () = question.withdrawn() => None,
    };
    // Dropped without an answer, it is refused.
    if let Some(reply) = reply {
        question.answer(reply.map(|result| ids.related_back(&result)));
    }
}
