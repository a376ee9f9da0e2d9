//! Requests whose pooled connection was idle when the service died.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use http::Method;
use serde_json::json;

use super::Rest;
use net::http::Form;
use runtime::memory::budget;
use runtime::shutdown::Shutdown;
use testkit::served::Served;
use upstream::api::Error;

const AT_ONCE: usize = 8;

/// A service that counts its requests.
struct Counted {
    served: Served,
    done: Arc<AtomicUsize>,
    rest: Rest,
}

impl Counted {
    fn start() -> Self {
        let done = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&done);
        let routes = Router::new().route(
            "/do",
            post(move |_: Bytes| async move {
                counter.fetch_add(1, Ordering::Relaxed);
            }),
        );
        let served = Served::start(routes);
        let rest = Rest::new(&served.url().parse().expect("a URL"), &crate::server_context(&Shutdown::new()))
            .expect("a client");
        Self { served, done, rest }
    }

    async fn act(&self) -> Result<(), Error> {
        let request = self.rest.request(Method::POST, &["do"]).json(&json!({"n": 1}));
        request.send().await?.bytes().await.map(drop)
    }

    async fn upload(&self) -> Result<(), Error> {
        let pieces = futures_util::stream::iter([Ok::<_, Error>("a".into()), Ok("b".into())]);
        let form = Form::new().file("file", "ab", 2, pieces);
        let request = self.rest.request(Method::POST, &["do"]).multipart(form);
        request.send().await?.bytes().await.map(drop)
    }

    /// Leaves idle connections in the pool.
    async fn warm(&self) {
        try_join_all((0..AT_ONCE).map(|_| self.act())).await.expect("it serves");
    }
}

/// Nothing runs on this thread between the end of the service and the next request. So the client learns of
/// the end only from the socket.
#[tokio::test]
async fn request_unsent_before_an_outage_is_sent_once_to_the_restarted_service() {
    let mut service = Counted::start();
    for round in 0..50 {
        service.warm().await;
        service.served.restart();
        let before = service.done.load(Ordering::Relaxed);
        let (acted, uploaded) = tokio::join!(join_all((0..AT_ONCE).map(|_| service.act())), service.upload());
        let failed: Vec<_> = acted.into_iter().chain([uploaded]).filter_map(Result::err).collect();
        assert!(failed.is_empty(), "round {round}: {failed:?}");
        assert_eq!(service.done.load(Ordering::Relaxed) - before, AT_ONCE + 1, "round {round}");
    }
}

#[tokio::test]
async fn while_the_service_is_away_nothing_was_sent_to_it() {
    let mut service = Counted::start();
    service.warm().await;
    service.served.kill();
    let failed = join_all((0..AT_ONCE).map(|_| service.act())).await;
    for failed in failed {
        assert!(matches!(failed, Err(Error::Connect { .. } | Error::NotSent { .. })), "{failed:?}");
    }
}

#[tokio::test]
async fn a_large_answer_is_charged_as_long_as_any_of_it_lives() {
    const SIZE: usize = 8 << 20;
    let served = Served::start(Router::new().route("/large", get(|| async { vec![b'x'; SIZE] })));
    let rest = Rest::new(&served.url().parse().expect("a URL"), &crate::server_context(&Shutdown::new()))
        .expect("a client");
    let answer = rest.request(Method::GET, &["large"]).send().await.expect("an answer");
    let part = answer.bytes().await.expect("there is room").slice(..10);
    assert!(budget().usage().used >= SIZE);
    drop(part);
    assert!(budget().usage().used < SIZE);
}
