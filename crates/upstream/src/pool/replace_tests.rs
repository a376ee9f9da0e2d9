//! Tests of connections that are replaced because a cancelled call on them was left unanswered.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::super::PooledConnection;
use super::super::dialects::tests::{legacy, pool_over, seat};
use super::*;
use crate::close_reason::Closing;
use crate::connection::{Call, Connection, Connector, Dialect, Events, Outlet, RequestFuture};
use crate::error::Error;
use crate::pool::replacement::MAX_OUTGOING;
use crate::response_stream::ResponseBody;
use json::Raw;
use protocol::lifecycle::Peer;
use protocol::{Era, Version};

/// A legacy program, one connection of which is for all.
#[derive(Clone, Default)]
struct Program(Arc<Inner>);

#[derive(Default)]
struct Inner {
    started: Mutex<Vec<Arc<Process>>>,
    refuses: AtomicBool,
}

struct Process {
    peer: Peer,
    closing: Closing,
    /// Cancelled calls that it has not answered, all of one owner.
    unanswered: AtomicUsize,
    answers: watch::Sender<()>,
}

struct Pipe(Arc<Process>);

impl Program {
    fn processes(&self) -> Vec<Arc<Process>> {
        self.0.started.lock().expect("no panic").clone()
    }

    fn newest(&self) -> Arc<Process> {
        self.processes().last().cloned().expect("one was started")
    }

    /// How many have not ended.
    fn running(&self) -> usize {
        self.processes().iter().filter(|process| !process.closing.is_closed()).count()
    }
}

impl Process {
    fn leaves(&self, unanswered: usize) {
        self.unanswered.store(unanswered, Ordering::Relaxed);
        self.answers.send_replace(());
    }

    /// Whether `seat` is on it.
    fn serves(&self, seat: &PooledConnection) -> bool {
        std::ptr::eq(seat.connection().peer(), &raw const self.peer)
    }
}

impl Connector for Program {
    fn connect(&self, _: Events, _: Dialect) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>> {
        let program = self.clone();
        async move {
            if program.0.refuses.load(Ordering::Relaxed) {
                return Err(Error::Connect { reason: "it exited".into() });
            }
            let empty = Raw::empty_object;
            let version = Version::V2025_11_25;
            let peer = Peer { version, info: empty(), capabilities: empty(), instructions: None };
            let (closing, answers) = (Closing::default(), watch::Sender::new(()));
            let process = Arc::new(Process { peer, closing, unanswered: AtomicUsize::new(0), answers });
            program.0.started.lock().expect("no panic").push(Arc::clone(&process));
            Ok(Arc::new(Pipe(process)) as Arc<dyn Connection>)
        }
        .boxed()
    }

    fn speaks(&self, era: Era) -> Option<bool> {
        Some(era == Era::Legacy)
    }

    fn declares(&self, _: Abilities) -> Abilities {
        Abilities::WITHOUT_ROOTS
    }

    fn requests_per_connection(&self) -> usize {
        usize::MAX
    }
}

impl Connection for Pipe {
    fn peer(&self) -> &Peer {
        &self.0.peer
    }

    fn request<'a>(&'a self, _: &'a Call, _: &'a Outlet) -> RequestFuture<'a> {
        async { Ok(ResponseBody::Buffered(Ok(Raw::empty_object()))) }.boxed()
    }

    fn attributes_requests(&self) -> bool {
        false
    }

    fn unanswered(&self, _: Owner) -> Option<Unanswered> {
        let until = Instant::now(); // the wait for an answer is over
        let unanswered = Unanswered { until, is_quiet: false, answers: self.0.answers.subscribe() };
        (self.0.unanswered.load(Ordering::Relaxed) > 0).then_some(unanswered)
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.0.closing.wait().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.closing.close("closed by us");
        async {}.boxed()
    }
}

fn pool() -> (Program, Arc<Pool>, Shutdown) {
    let program = Program::default();
    let (pool, shutdown) = pool_over(Arc::new(program.clone()), 1, false);
    (program, pool, shutdown)
}

/// A call of a client that cannot be asked.
fn silent() -> Call {
    let mut call = legacy();
    call.sender.capabilities = Raw::empty_object();
    call
}

#[tokio::test(start_paused = true)]
async fn a_replaced_process_ends_with_its_calls_and_the_cancelled_one() {
    let (program, pool, _shutdown) = pool();
    let (one, two) = (legacy(), silent());
    let running = seat(&pool, &one).await.expect("a seat");
    let old = program.newest();
    old.leaves(1);
    assert!(old.serves(&seat(&pool, &two).await.expect("a seat")), "its client cannot be asked");
    assert_eq!((program.processes().len(), old.serves(&running)), (1, true));
    let next = seat(&pool, &one).await.expect("a seat");
    assert!(program.newest().serves(&next) && !old.serves(&next));
    assert_eq!((program.running(), pool.live()), (2, 1), "one takes new calls");
    sleep(UNANSWERED_LIMIT * 2).await;
    assert_eq!(program.running(), 2, "a call runs there");
    drop((running, next));
    sleep(LOOK_EVERY * 2).await;
    assert_eq!((program.running(), old.closing.is_closed()), (1, true));

    // Without calls it is the late answer that ends it, or the end of the wait for that.
    for (answers, after) in [(true, LOOK_EVERY), (false, UNANSWERED_LIMIT)] {
        let old = program.newest();
        old.leaves(1);
        drop(seat(&pool, &one).await.expect("a seat"));
        sleep(LOOK_EVERY * 2).await;
        assert_eq!(program.running(), 2);
        old.leaves(usize::from(!answers));
        sleep(after + LOOK_EVERY).await;
        assert_eq!(program.running(), 1, "{answers}");
    }
}

#[tokio::test(start_paused = true)]
async fn so_many_replaced_processes_are_there_at_a_time() {
    let (program, pool, _shutdown) = pool();
    let call = legacy();
    drop(seat(&pool, &call).await.expect("a seat"));
    for started in 2..=1 + MAX_OUTGOING {
        program.newest().leaves(1);
        drop(seat(&pool, &call).await.expect("a seat"));
        assert_eq!((program.processes().len(), program.running()), (started, started));
    }
    program.newest().leaves(1);
    let kept = seat(&pool, &call).await.expect("a seat");
    assert_eq!((program.processes().len(), program.newest().serves(&kept)), (1 + MAX_OUTGOING, true));
    drop(kept);
    sleep(UNANSWERED_LIMIT + PAUSE).await;
    assert_eq!(program.running(), 1);
    drop(seat(&pool, &call).await.expect("a seat"));
    assert_eq!(program.running(), 2, "there is room again");
    pool.close_all().await;
    assert_eq!(program.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_successor_the_process_keeps_serving_and_it_is_tried_again() {
    let (program, pool, _shutdown) = pool();
    let call = legacy();
    drop(seat(&pool, &call).await.expect("a seat"));
    program.newest().leaves(1);
    program.0.refuses.store(true, Ordering::Relaxed);
    let mut occupancy = pool.occupancy();
    for _ in 0..3 {
        assert!(program.newest().serves(&seat(&pool, &call).await.expect("a seat")));
    }
    let told = occupancy.wait_for(|there| there.unreplaced.is_some()).await.expect("told").clone();
    assert!(told.unreplaced.is_some_and(|reason| reason.contains("it exited")));
    program.0.refuses.store(false, Ordering::Relaxed);
    assert_eq!(program.running(), 1);
    sleep(Duration::from_secs(31)).await;
    drop(seat(&pool, &call).await.expect("a seat"));
    assert_eq!((program.processes().len(), pool.live()), (2, 1));
}
