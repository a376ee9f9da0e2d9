//! Lists other than the tools that fail or take long.

use std::sync::Arc;

use serde_json::json;

use super::tests::{discovery, full, offer_of, tool, whole};
use super::*;
use crate::connection::{Connector, Dialect, Events};
use crate::fake::Answer;
use protocol::{Era, Version, method};

#[tokio::test(start_paused = true)]
async fn any_failure_of_a_side_list_but_a_lost_connection_costs_that_list_alone() {
    let reason = || "why".to_owned();
    for failure in [
        Error::Status { status: 500, retry_after: None, detail: String::new() },
        Error::Status { status: 429, retry_after: Some(Duration::from_secs(1)), detail: String::new() },
        Error::Malformed { reason: reason() },
        Error::TooLarge { limit: 1 },
        Error::MemoryExhausted,
        Error::Cut { reason: reason() },
        Error::Lost { reason: reason() },
        Error::AuthFailed { reason: reason() },
        Error::LoginRequired { reason: reason(), only_this_call: true },
    ] {
        for broken in [Kind::Resources, Kind::Templates, Kind::Prompts, Kind::Skills] {
            let server = whole(Version::V2025_11_25, |kind| Some(full(kind)));
            let failed = failure.clone();
            server.answer(move |call| {
                let kind = Kind::ALL.into_iter().find(|kind| kind.method() == call.method)?;
                let is_broken = kind == broken;
                Some(if is_broken { Answer::Fail(failed.clone()) } else { Answer::result(&full(kind)) })
            });
            let offer = offer_of(&server).await;
            let counts = [&offer.resources, &offer.templates, &offer.prompts, &offer.skills].map(Vec::len);
            assert_eq!((offer.tools.len(), counts.iter().sum::<usize>()), (2, 6), "{broken:?} {failure}");
            assert!(offer.has_failed_lists && offer.problems[0].contains("is left out"), "{failure}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tools_are_sent_on_while_other_lists_take_long() {
    for pages in [false, true] {
        let server = whole(Version::V2025_11_25, |kind| Some(full(kind)));
        let first = Arc::new(offer_of(&server).await);
        server.answer(move |call| match (call.method.as_str(), pages) {
            (method::PROMPTS_LIST, false) => Some(Answer::Silence),
            (method::PROMPTS_LIST, true) => {
                let cursor = call.params.as_ref().and_then(|params| params.get_as::<String>("cursor"));
                let next = cursor.unwrap_or_default() + "x";
                Some(Answer::After(
                    Duration::from_millis(50),
                    Ok(Raw::of(&json!({"prompts": [], "nextCursor": next}))),
                ))
            }
            (method::TOOLS_LIST, _) => Some(Answer::result(&json!({"tools": [tool(7)]}))),
            _ => {
                Some(Answer::result(&full(Kind::ALL.into_iter().find(|kind| kind.method() == call.method)?)))
            }
        });
        let (early, mut tools) = mpsc::channel(1);
        let dialect = Dialect { era: Era::Legacy, ..Dialect::base() };
        let connection = server.connect(Events::channel().0, dialect).await.expect("accepts");
        let started = Instant::now();
        let reading = discovery(Some(first), early);
        let (early, offer) = tokio::join!(
            async { (tools.recv().await.expect("the tools"), started.elapsed()) },
            reading.on(connection.as_ref())
        );
        let (early, after) = early;
        assert!(after < Duration::from_secs(1) && early.is_partial, "{after:?}");
        assert_eq!((early.tools[0].name.as_str(), early.prompts.len()), ("tool7", 2), "{:?}", early.problems);
        let offer = offer.expect("reached").expect("listed");
        assert!(!offer.is_partial && offer.has_failed_lists && offer.resources.len() == 2);
        assert!(started.elapsed() <= SIDE_LIST_LIMIT + Duration::from_secs(1), "{:?}", started.elapsed());
        let stays = "its list of prompts stays as it was read last: no answer within 10.0 s";
        assert_eq!(offer.problems, [stays]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_deadline_leaves_time_for_the_offer() {
    let server = whole(Version::V2025_11_25, |kind| Some(full(kind)));
    server.answer(|call| (call.method == method::PROMPTS_LIST).then_some(Answer::Silence));
    let connection = server.connect(Events::channel().0, Dialect { era: Era::Legacy, ..Dialect::base() });
    let connection = connection.await.expect("accepts");
    let deadline = Instant::now() + Duration::from_secs(2);
    let reading = Discovery { deadline, ..discovery(None, mpsc::channel(1).0) };
    let offer = reading.on(connection.as_ref()).await.expect("reached").expect("listed");
    assert!(Instant::now() < deadline && offer.prompts.is_empty());
}

#[test]
fn a_hostile_pattern_of_a_schema_overflows_no_stack() {
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    let check = || {
        for pattern in
            ["(".repeat(1_000), "(?:".repeat(100), format!("{}a{}", "(".repeat(100), "){9}".repeat(100))]
        {
            let schema =
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}});
            let definition = Raw::of(&json!({"name": "t", "inputSchema": schema}));
            let _ = definition::check(Kind::Tools, "t", &definition, Version::V2025_11_25);
        }
    };
    thread.spawn(check).expect("a thread").join().expect("no overflow");
}
