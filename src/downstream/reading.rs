//! Bodies of requests while they arrive: each within its size, and all of them in sum.
//!
//! Invariants: a body that came in one piece is neither copied nor counted; of any other one what has come is
//! counted from its first piece to its end, whatever the end is; what would be more than all may take is
//! refused, and what it had counted is free at once.
//!
//! Not here: the time that a body has (`bodies`), what it takes once it is whole: then it belongs to a call,
//! whose number is limited.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use super::bodies::BodyTimedOut;
use super::guard::Incoming;
use super::refusal::Refusal;
use crate::worker::WorkBudget;

/// What all bodies may take while they arrive, in bytes.
const IN_SUM: usize = 128 * 1024 * 1024;
/// Of larger ones there is room for so many in any case.
const AT_LEAST: usize = 4;

/// Room for the bodies that arrive at one door.
#[derive(Debug)]
pub(super) struct Reservoir {
    most: usize,
    taken: AtomicUsize,
}

impl Reservoir {
    /// Room where a body has at most `limit` bytes.
    pub(super) fn for_bodies_of(limit: usize) -> Self {
        Self { most: IN_SUM.max(limit.saturating_mul(AT_LEAST)), taken: AtomicUsize::new(0) }
    }
}

/// What one body takes.
struct Share<'a> {
    reservoir: &'a Reservoir,
    bytes: usize,
}

impl Share<'_> {
    /// Takes what is missing to `bytes`.
    fn grow_to(&mut self, bytes: usize) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.bytes);
        let before = self.reservoir.taken.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
        // What was too much is given back with the rest.
        if before.saturating_add(more) > self.reservoir.most { Err(Refusal::BodiesFull) } else { Ok(()) }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.reservoir.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The whole body, of at most `limit` bytes.
pub(super) async fn read<B: Incoming>(
    body: &mut B,
    limit: usize,
    reservoir: &Reservoir,
) -> Result<Bytes, Refusal> {
    let Some(first) = piece(body).await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(Refusal::TooLarge { limit });
    }
    if body.is_end_stream() {
        return Ok(first);
    }
    let (mut whole, mut share) = (first, Share { reservoir, bytes: 0 });
    share.grow_to(whole.len())?;
    let mut work = WorkBudget::new();
    while let Some(data) = piece(body).await? {
        work.charge(data.len());
        work.yield_if_spent().await;
        let size = whole.len() + data.len();
        if size > limit {
            return Err(Refusal::TooLarge { limit });
        }
        share.grow_to(size)?;
        whole = if whole.is_empty() { data } else { joined(whole, &data) };
    }
    Ok(whole)
}

/// The next piece; none at the end.
async fn piece<B: Incoming>(body: &mut B) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if timed_out(&*error.into()) { Refusal::BodyTimedOut } else { Refusal::BodyCut }
        })?;
        // The others are trailers, which nobody here reads.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn joined(whole: Bytes, data: &[u8]) -> Bytes {
    let mut grown = whole.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    grown.extend_from_slice(data);
    grown.freeze()
}

fn timed_out(error: &(dyn StdError + 'static)) -> bool {
    std::iter::successors(Some(error), |error| (*error).source()).any(<dyn StdError>::is::<BodyTimedOut>)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll};

    use futures_util::poll;
    use http_body::{Body, Frame};
    use http_body_util::Full;
    use tokio::sync::mpsc;

    use super::*;

    const LIMIT: usize = 100;

    /// A body that a test writes.
    struct Pipe(mpsc::UnboundedReceiver<usize>);

    impl Body for Pipe {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_recv(cx).map(|size| size.map(|size| Ok(Frame::data(Bytes::from(vec![b'x'; size])))))
        }
    }

    fn pipe() -> (mpsc::UnboundedSender<usize>, Pipe) {
        let (pen, pipe) = mpsc::unbounded_channel();
        (pen, Pipe(pipe))
    }

    fn reservoir(most: usize) -> Reservoir {
        Reservoir { most, taken: AtomicUsize::new(0) }
    }

    fn taken(reservoir: &Reservoir) -> usize {
        reservoir.taken.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn bodies_that_are_on_their_way_share_what_there_is() {
        let room = reservoir(150);
        let ((pen, mut one), (other_pen, mut two)) = (pipe(), pipe());
        let (mut first, mut second) =
            (pin!(read(&mut one, LIMIT, &room)), pin!(read(&mut two, LIMIT, &room)));
        pen.send(60).expect("read");
        pen.send(30).expect("read");
        other_pen.send(60).expect("read");
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        assert_eq!(taken(&room), 150);
        other_pen.send(1).expect("read");
        assert_eq!(second.await, Err(Refusal::BodiesFull));
        assert_eq!(taken(&room), 90, "what was refused takes nothing");
        pen.send(10).expect("read");
        drop(pen);
        assert_eq!(first.await.map(|body| body.len()), Ok(100), "and the other one goes on");
        assert_eq!(taken(&room), 0);
    }

    #[tokio::test]
    async fn whoever_leaves_or_sends_too_much_gives_back_what_it_took() {
        let room = reservoir(1_000);
        let (pen, mut body) = pipe();
        pen.send(60).expect("read");
        {
            let mut reading = pin!(read(&mut body, LIMIT, &room));
            assert!(poll!(&mut reading).is_pending());
            assert_eq!(taken(&room), 60);
        }
        assert_eq!(taken(&room), 0);
        pen.send(60).expect("read");
        pen.send(60).expect("read");
        assert_eq!(read(&mut body, LIMIT, &room).await, Err(Refusal::TooLarge { limit: LIMIT }));
        assert_eq!(taken(&room), 0);
    }

    #[tokio::test]
    async fn what_came_in_one_piece_is_not_counted() {
        let (full, data) = (reservoir(0), Bytes::from_static(b"hello"));
        let read_here =
            read(&mut Full::new(data.clone()), LIMIT, &full).await.expect("there is no limit for it");
        assert_eq!(read_here.as_ptr(), data.as_ptr(), "nor copied");
        assert_eq!(read(&mut Full::new(Bytes::new()), LIMIT, &full).await, Ok(Bytes::new()));
        let most = |limit| Reservoir::for_bodies_of(limit).most;
        assert_eq!((most(4 << 20), most(1 << 30)), (128 << 20, 4 << 30));
    }
}
