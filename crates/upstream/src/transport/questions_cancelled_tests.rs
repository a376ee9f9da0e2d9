//! Tests of server requests that may belong to a cancelled call.

use super::*;

#[tokio::test(start_paused = true)]
async fn however_many_calls_were_given_up_none_of_them_asks_somebody_else() {
    for is_anothers in [false, true] {
        let mut channel = Channel::new();
        let (owner, hasty) = (Owner::new(), Owner::new());
        let (_call, mut inlet) = channel.call(owner);
        // The calls that are kept one by one end with their responses, or belong to the client itself.
        let known: Vec<u64> = (0..256).map(|_| channel.call(hasty).0.id()).collect();
        drop(channel.call(if is_anothers { hasty } else { owner }));
        for id in known {
            let late = Response { id: Some(RequestId::from_u64(id)), reply: Ok(Raw::empty_object()) };
            assert!(!channel.pending.answer(late));
        }
        channel.ask(1, method::ELICITATION_CREATE);
        if is_anothers {
            assert_eq!(channel.answer().await, (1, Err(code::CONNECTION_CLOSED)));
            // A call of the client itself does not hide that of the other client.
            (0..257).for_each(|_| drop(channel.call(owner)));
            channel.ask(2, method::ELICITATION_CREATE);
            assert_eq!(channel.answer().await, (2, Err(code::CONNECTION_CLOSED)));
            assert!(inlet.try_recv().is_err());
        } else {
            accept(question(&mut inlet).await);
            assert_eq!(channel.answer().await, (1, Ok(ACCEPTED.into())), "they are all its own");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_answered_late_speaks_for_nobody_any_more() {
    let mut channel = Channel::new();
    let (one, _gone) = channel.call(Owner::new());
    let (_two, mut inlet) = channel.call(Owner::new());
    let id = one.id();
    drop(one);
    assert!(
        !channel
            .pending
            .answer(Response { id: Some(RequestId::from_u64(id)), reply: Ok(Raw::empty_object()) })
    );
    channel.ask(1, method::ELICITATION_CREATE);
    accept(question(&mut inlet).await);
    assert_eq!(channel.answer().await, (1, Ok(ACCEPTED.into())));
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_the_late_answer_of_a_cancelled_call() {
    let mut channel = Channel::new();
    let (one, _gone) = channel.call(Owner::new());
    let (two, mut inlet) = channel.call(Owner::new());
    let (cancelled, id) = (one.id(), two.id());
    drop(one);
    channel.ask(1, method::ELICITATION_CREATE);
    let late = || Response { id: Some(RequestId::from_u64(cancelled)), reply: Ok(Raw::empty_object()) };
    let answers = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(!channel.pending.answer(late()), "nobody waits for it");
    };
    let ((), asked) = tokio::join!(answers, question(&mut inlet));
    accept(asked);
    assert_eq!(channel.answer().await, (1, Ok(ACCEPTED.into())));
    assert!(channel.pending.unanswered(Owner::new()).is_none());
    // Its own cancelled call delays only other owners.
    drop(two);
    assert!(channel.pending.unanswered(Owner::new()).is_some_and(|calls| !calls.is_quiet));
    let late = Response { id: Some(RequestId::from_u64(id)), reply: Ok(Raw::empty_object()) };
    assert!(!channel.pending.answer(late) && channel.pending.unanswered(Owner::new()).is_none());
}

#[tokio::test(start_paused = true)]
async fn where_calls_have_streams_a_cancelled_one_counts_for_five_seconds() {
    let mut channel = Channel::new();
    channel.pending = Pending::of_streams(0, |_| {});
    let (_two, mut inlet) = channel.call(Owner::new());
    (0..300).for_each(|_| drop(channel.call(Owner::new())));
    channel.ask(1, method::ELICITATION_CREATE);
    assert_eq!(channel.answer().await, (1, Err(code::CONNECTION_CLOSED)));
    tokio::time::advance(Duration::from_secs(5)).await;
    channel.ask(2, method::ELICITATION_CREATE);
    accept(question(&mut inlet).await);
    assert_eq!(channel.answer().await, (2, Ok(ACCEPTED.into())));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_many_calls_and_asks_nothing_is_quiet() {
    let channel = Channel::new();
    for answered in 0..40 {
        drop(channel.call(Owner::new()));
        let unanswered = channel.pending.unanswered(Owner::new()).expect("cancelled");
        assert_eq!(unanswered.is_quiet, answered >= 32, "{answered}");
        let (ticket, _inlet) = channel.call(Owner::new());
        let reply = Ok(Raw::empty_object());
        assert!(channel.pending.answer(Response { id: Some(RequestId::from_u64(ticket.id())), reply }));
    }
    channel.ask(1, method::ELICITATION_CREATE);
    assert!(!channel.pending.unanswered(Owner::new()).expect("cancelled").is_quiet, "it was seen asking");
}
