//! A server that refuses the credentials: how often it is contacted, and the errors of callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::connection::{Connection, Connector};
use crate::fake::{Answer, Fake, config, tool_call};
use crate::{Change, Dialect, Error, EventSender, Events, State, Update, Upstream};
use protocol::feature::Effect;
use protocol::{Era, Version, method};
use runtime::shutdown::Shutdown;

const REASON: &str = "no such account";

/// Checks credentials before it connects to the wrapped server.
struct Door {
    refuses: AtomicBool,
    tried: AtomicUsize,
    behind: Arc<dyn Connector>,
}

impl Connector for Arc<Door> {
    fn connect(
        &self,
        events: Events,
        dialect: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>> {
        self.tried.fetch_add(1, Ordering::SeqCst);
        if self.refuses.load(Ordering::SeqCst) {
            return std::future::ready(Err(refused())).boxed();
        }
        self.behind.connect(events, dialect)
    }

    fn speaks(&self, era: Era) -> Option<bool> {
        self.behind.speaks(era)
    }

    fn requests_per_connection(&self) -> usize {
        self.behind.requests_per_connection()
    }
}

struct Scene {
    server: Fake,
    door: Arc<Door>,
    upstream: Arc<Upstream>,
    updates: mpsc::Receiver<Update>,
    _shutdown: Shutdown,
}

impl Scene {
    fn new(refuses: bool) -> Self {
        let (server, shutdown) = (Fake::new(Version::V2026_07_28), Shutdown::new());
        let door = Arc::new(Door {
            refuses: AtomicBool::new(refuses),
            tried: AtomicUsize::new(0),
            behind: server.connector(),
        });
        let (sender, updates) = mpsc::channel(64);
        let upstream = Upstream::start(config("fake"), Arc::new(Arc::clone(&door)), sender, &shutdown);
        Self { server, door, upstream, updates, _shutdown: shutdown }
    }

    async fn until(&mut self, expected: State) {
        let limit = Duration::from_mins(10);
        loop {
            let update = timeout(limit, self.updates.recv()).await.expect("news in time").expect("open");
            if matches!(update.change, Change::State(state) if state == expected) {
                return;
            }
        }
    }

    async fn call(&self) -> Result<(), Error> {
        let deadline = Instant::now() + Duration::from_secs(30);
        self.upstream.call(&tool_call(Effect::Unsafe), deadline, &EventSender::none()).await.map(drop)
    }

    fn tried(&self) -> usize {
        self.door.tried.load(Ordering::SeqCst)
    }
}

fn refused() -> Error {
    Error::AuthFailed { reason: REASON.into() }
}

#[tokio::test(start_paused = true)]
async fn server_that_refuses_credentials_is_parked_until_an_operator_connects() {
    let mut scene = Scene::new(true);
    scene.until(State::AuthFailed).await;
    for _ in 0..5 {
        assert_eq!(scene.call().await, Err(refused()));
    }
    tokio::time::sleep(Duration::from_hours(1)).await;
    let status = scene.upstream.status();
    assert_eq!((status.state, status.last_error.as_deref()), (State::AuthFailed, Some(REASON)));
    assert_eq!(scene.tried(), 1, "it was left alone");
    assert!(scene.updates.try_recv().is_err(), "and nothing more is told of it");

    let soon = || Instant::now() + Duration::from_secs(5);
    assert_eq!(scene.upstream.connect(soon()).await.map(drop), Err(refused()));
    assert_eq!(scene.upstream.reconnect(soon()).await.map(drop), Err(refused()));
    assert_eq!(scene.tried(), 3);
    scene.door.refuses.store(false, Ordering::SeqCst);
    assert!(scene.upstream.connect(soon()).await.is_ok());
    scene.until(State::Ready).await;
    assert_eq!(scene.call().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn server_that_refuses_credentials_only_at_the_list_is_parked_too() {
    let mut scene = Scene::new(false);
    let closed = || Answer::Fail(Error::Status { status: 401, retry_after: None, detail: String::new() });
    scene.server.answer(move |call| (call.method == method::TOOLS_LIST).then(closed));
    scene.until(State::AuthFailed).await;
    let refused = Error::AuthFailed { reason: "HTTP 401".into() };
    assert_eq!(scene.call().await, Err(refused.clone()));
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!((scene.server.executed(method::TOOLS_LIST), scene.tried()), (1, 1), "it was left alone");
    assert_eq!(scene.upstream.status().last_error.as_deref(), Some("HTTP 401"));

    scene.server.answer(|_| None);
    let soon = Instant::now() + Duration::from_secs(5);
    assert!(scene.upstream.reconnect(soon).await.is_ok());
    assert_eq!(scene.call().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn credentials_that_end_while_it_is_up_are_found_out_by_its_health() {
    let mut scene = Scene::new(false);
    scene.until(State::Ready).await;
    scene.server.answer(|_| {
        Some(Answer::Fail(Error::Status { status: 401, retry_after: None, detail: String::new() }))
    });
    scene.until(State::AuthFailed).await;
    assert_eq!(scene.call().await, Err(Error::AuthFailed { reason: "HTTP 401".into() }));
}

#[tokio::test(start_paused = true)]
async fn calls_do_not_knock_while_nobody_has_parked_it_yet() {
    let mut scene = Scene::new(false);
    scene.until(State::Ready).await;
    scene.door.refuses.store(true, Ordering::SeqCst);
    scene.server.die("its session ended");
    for _ in 0..50 {
        assert_eq!(scene.call().await, Err(refused()));
    }
    scene.until(State::AuthFailed).await;
    assert_eq!(scene.tried(), 2, "the first, and one that was refused");
    assert!(scene.upstream.offer().is_some(), "what it offers is still known");
    scene.upstream.disconnect().await.expect("done");
    scene.until(State::Disconnected).await;
    assert_eq!(scene.call().await, Err(Error::Unavailable { state: "disconnected" }));
}
