//! Server requests that nobody answers give way when others wait, and only then.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::fake::{Answer, Fake, config, tool_call};
use super::{Error, EventSender, Upstream};
use protocol::feature::Effect;
use protocol::{ErrorObject, Version, method};
use runtime::shutdown::Shutdown;

#[tokio::test(start_paused = true)]
async fn a_call_whose_client_does_not_answer_gives_its_slot_to_one_that_waits() {
    let (server, shutdown) = (Fake::new(Version::V2025_11_25), Shutdown::new());
    let of_server = server.clone();
    server.answer(move |call| {
        let server = of_server.clone();
        let asks = call.principal.as_deref() == Some("key:asked");
        (call.method == method::TOOLS_CALL && asks).then(|| {
            Answer::work(move |_, _| {
                let server = server.clone();
                async move {
                    server.refused().await;
                    Err(ErrorObject::new(-32000, "the client did not answer"))
                }
            })
        })
    });
    let (updates, _news) = mpsc::channel(64);
    let mut config = config("fake");
    (config.limits.concurrent_calls, config.limits.waiting_calls) = (1, 8);
    config.health_check_interval = Duration::from_hours(10);
    let upstream = Upstream::start(config, server.connector(), updates, &shutdown);
    while upstream.offer().is_none() {
        sleep(Duration::from_millis(1)).await;
    }
    let call = |principal: &str, seconds| {
        let (upstream, mut call) = (Arc::clone(&upstream), tool_call(Effect::Unsafe));
        call.principal = Some(principal.into());
        let deadline = Instant::now() + Duration::from_secs(seconds);
        async move { upstream.call(&call, deadline, &EventSender::none()).await }
    };
    let mut first = Box::pin(call("key:asked", 3_000));
    assert!((&mut first).now_or_never().is_none());
    let refused = call("key:other", 5).await.err();
    assert!(matches!(refused, Some(Error::Overloaded { .. })), "its client has time to answer: {refused:?}");
    server.asks_in_vain();
    sleep(Duration::from_mins(5)).await;
    assert!((&mut first).now_or_never().is_none(), "nobody waits");
    let began = Instant::now();
    let (waited, ended) = tokio::join!(call("key:other", 5), first);
    assert!(waited.is_ok(), "{:?}", waited.err());
    assert!(ended.is_ok_and(|response| format!("{:?}", response.body).contains("did not answer")));
    assert_eq!(began.elapsed(), Duration::ZERO);
}
