//! Memory and slots that an exchange holds while nobody reads.

use super::*;
use auth::Principal;
use gateway::manager::{Config, Manager, Scope};
use upstream::{Error, arriving};

/// A request that is answered by `answer`.
fn exchange(answer: AnswerState) -> Exchange {
    let tasks = Shutdown::new();
    let manager = Manager::with_connectors(Config::of(Vec::new()), Vec::new(), tasks.clone());
    let caller = Arc::new(Caller::modern(Principal::anonymous(), Scope::ALL, None));
    let request = Request { id: RequestId::from_u64(1), method: "tools/call".into(), params: None };
    let exchange = Exchange::attached(&Gateway::new(manager, tasks), caller, request, None);
    Exchange { answer, ..exchange }
}

#[tokio::test(start_paused = true)]
async fn a_result_behind_a_stream_holds_nothing_of_its_server_while_nobody_reads() {
    for is_known in [false, true] {
        let (flow, writer) = arriving();
        let received = Some(ResponseBody::Streaming(Box::new(flow)));
        let answer = if is_known {
            AnswerState::Ready(received)
        } else {
            AnswerState::Pending(std::future::ready(received).boxed())
        };
        let mut exchange = exchange(answer);
        exchange.keep_going(&Shutdown::new());
        let _ = writer.send(Ok(r#"{"jsonrpc":"2.0","result":{"a":"#));
        let _ = writer.send(Err(Error::Cut { reason: "reset".into() }));
        // Nobody asks the exchange for anything.
        writer.closed().await;
        let Some(Message::Response(Response { reply: Err(error), .. })) = exchange.next().await else {
            panic!("it was cut")
        };
        assert!(error.message().contains("cut off"), "{}", error.message());
        assert!(exchange.next().await.is_none());
    }
}

#[tokio::test]
async fn a_response_that_came_with_the_first_message_is_written_without_waiting_for_a_task() {
    let reply = Ok(Raw::of(&serde_json::json!({"content": []})));
    let mut exchange = exchange(AnswerState::Ready(Some(ResponseBody::Buffered(reply))));
    exchange.keep_going(&Shutdown::new());
    let next = exchange.next().now_or_never().expect("it is there already");
    assert!(matches!(next, Some(Message::Response(Response { reply: Ok(_), .. }))), "{next:?}");
}
