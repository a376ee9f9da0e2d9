//! The end of the program under load.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, eventually};

/// RULES R3: SIGTERM while 500 calls run and 100 streams are open: every call is answered, every stream ends, and the
/// program ends well before its limit for that.
#[tokio::test]
async fn no_call_of_five_hundred_is_lost_and_no_stream_of_a_hundred_holds_up_the_end() {
    const CALLS: usize = 500;
    const STREAMS: usize = 100;
    const DRAIN: u64 = 15;
    let slow = Tool::named("slow").does(Act::Slow(Duration::from_secs(3)));
    let server = Scripted::modern().tool(slow).start();
    let registry = Registry::new()
        .http("one", &server.url())
        .with(&format!("limits: {{concurrent_calls: {CALLS}}}"))
        .setting(&format!("server: {{drain_timeout: {DRAIN}}}"));
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["slow"]).await;
    let (client, filter) = (gateway.mcp(), json!({"notifications": {"toolsListChanged": true}}));
    let streams = join_all((0..STREAMS).map(async |number| {
        if number % 2 == 0 {
            return client.legacy().await.client.listen().await;
        }
        let mut stream = client.modern_stream("subscriptions/listen", &filter).await;
        assert!(stream.next().await.is_some(), "it is acknowledged");
        stream
    }))
    .await;
    let calls = join_all((0..CALLS).map(|number| client.call("slow", json!({"n": number}))));
    let end = async {
        eventually("all run", async || (server.runs("slow") == CALLS).then_some(())).await;
        let began = Instant::now();
        (gateway.stop().await, began.elapsed())
    };
    let (answers, (status, took)) = tokio::join!(calls, end);
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.text(), json!({"n": number}).to_string(), "{answer:?}");
    }
    assert!(status.success() && took < Duration::from_secs(DRAIN + 1), "{status} after {took:?}");
    for mut stream in streams {
        while stream.next().await.is_some() {}
    }
    assert_eq!(server.runs("slow"), CALLS);
}
