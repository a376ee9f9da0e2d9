//! Bodies of requests: each within its size, and all of them within the memory budget.
//!
//! Invariants: a body is charged to its principal while it arrives. The charge of the whole body lasts for as
//! long as anything holds a part of it. A refused body is released at once. A small body that comes in one
//! piece is neither copied nor charged.
//!
//! Not here: the time that a body has (`bodies`), the admission rule ([`runtime::memory`]).

use std::error::Error as StdError;

use bytes::{Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;

use super::bodies::BodyTimedOut;
use super::refusal::Refusal;
use runtime::memory::{Charge, Exhausted, SMALL};
use runtime::worker::{WorkBudget, bulk};

/// Once this many bytes have arrived, the buffer gets room for the whole announced body.
const LARGE: usize = 64 * 1024;
/// A connection with a body of this size or more is moved to a bulk thread ([`bulk`]).
const BULK: usize = 256 * 1024;
/// Limit of the trailers of a chunked body. hyper stores them while they arrive and does not report their size.
const TRAILERS: usize = 16 * 1024;

/// A request body that is still arriving.
pub(super) trait Incoming: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Unpin + Send {}

impl<B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Unpin + Send> Incoming for B {}

impl From<Exhausted> for Refusal {
    fn from(_: Exhausted) -> Self {
        Self::MemoryExhausted
    }
}

/// The charge for the trailers that may follow on `body`. None if there can be none.
pub(super) fn trailers<B: Incoming>(
    body: &B,
    open: impl FnOnce() -> Charge,
) -> Result<Option<Charge>, Exhausted> {
    if body.size_hint().exact().is_some() {
        return Ok(None);
    }
    let mut charge = open();
    charge.resize(TRAILERS).map(|()| Some(charge))
}

/// Reads the whole body, of at most `limit` bytes. `open` gives the charge of its sender.
pub(super) async fn read<B: Incoming>(
    body: &mut B,
    limit: usize,
    open: impl Fn() -> Charge,
) -> Result<Bytes, Refusal> {
    let trailers = trailers(body, &open)?;
    let Some(first) = piece(body).await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(Refusal::TooLarge { limit });
    }
    if body.is_end_stream() {
        return Ok(if first.len() < SMALL { first } else { open().hold(first)? });
    }
    let mut growth = Growth::default();
    if growth.turns_large(body, first.len()) {
        bulk::enter().await;
    }
    let reserved = trailers.as_ref().map_or(0, |_| TRAILERS);
    let (mut whole, mut charge, mut work) = (first, trailers.unwrap_or_else(open), WorkBudget::new());
    charge.cover(reserved + whole.len())?;
    while let Some(data) = piece(body).await? {
        work.charge(data.len());
        work.yield_if_spent().await;
        if growth.turns_large(body, data.len()) {
            bulk::enter().await;
        }
        let size = whole.len() + data.len();
        if size > limit {
            return Err(Refusal::TooLarge { limit });
        }
        charge.cover(reserved + size)?;
        let rest = rest_of(body, limit - size).filter(|_| size >= LARGE);
        whole = if whole.is_empty() { data } else { joined(whole, &data, rest.unwrap_or(0)) };
    }
    Ok(if whole.len() < SMALL { whole } else { charge.hold(whole)? })
}

/// Notices when a body turns out to be large, so that its connection can be moved before most of it was received.
#[derive(Debug, Default)]
pub(super) struct Growth {
    received: usize,
    is_large: bool,
}

impl Growth {
    /// Notes that `bytes` of `body` were received. True once, when the body is known to be large.
    pub(super) fn turns_large<B: Incoming>(&mut self, body: &B, bytes: usize) -> bool {
        if self.is_large {
            return false;
        }
        self.received += bytes;
        let announced = body.size_hint().exact().and_then(|rest| usize::try_from(rest).ok()).unwrap_or(0);
        self.is_large = self.received.saturating_add(announced) >= BULK;
        self.is_large
    }
}

/// The next piece; none at the end.
async fn piece<B: Incoming>(body: &mut B) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if timed_out(&*error.into()) { Refusal::BodyTimedOut } else { Refusal::BodyCut }
        })?;
        // The other frames are trailers, which are not used.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Bytes that are announced and have not come, at most `room`.
fn rest_of<B: Incoming>(body: &B, room: usize) -> Option<usize> {
    usize::try_from(body.size_hint().exact()?).ok().filter(|rest| *rest <= room)
}

/// `whole` and `data`, with room for `rest`, so that what is announced is not copied again and again.
fn joined(whole: Bytes, data: &[u8], rest: usize) -> Bytes {
    let mut grown = whole.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    if grown.capacity() < grown.len() + data.len() {
        grown.reserve(data.len() + rest);
    }
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
    use runtime::memory::{Account, Budget, ChargeKind};

    const KIB: usize = 1024;
    const LIMIT: usize = 100 * KIB;

    /// A body that a test writes.
    struct Pipe(mpsc::UnboundedReceiver<usize>);

    impl Body for Pipe {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let frame = |size| Ok(Frame::data(Bytes::from(vec![b'x'; size])));
            self.0.poll_recv(cx).map(|size| size.map(frame))
        }
    }

    fn channel() -> (mpsc::UnboundedSender<usize>, Pipe) {
        let (writer, reader) = mpsc::unbounded_channel();
        (writer, Pipe(reader))
    }

    fn open(budget: &'static Budget, id: &str) -> impl Fn() -> Charge {
        let account = Account::Principal(id.into());
        move || budget.open(account.clone(), ChargeKind::Request)
    }

    #[tokio::test]
    async fn a_body_is_charged_while_it_arrives_and_as_long_as_a_part_of_it_lives() {
        let budget = Budget::of_size(1_000 * KIB);
        let (writer, mut body) = channel();
        let part = {
            let mut reading = pin!(read(&mut body, LIMIT, open(budget, "a")));
            writer.send(60 * KIB).expect("read");
            assert!(poll!(&mut reading).is_pending());
            assert!(budget.usage().used >= 60 * KIB);
            writer.send(10 * KIB).expect("read");
            drop(writer);
            let whole = reading.await.expect("there is room");
            assert_eq!((whole.len(), budget.usage().used), (70 * KIB, 70 * KIB));
            whole.slice(..10)
        };
        assert_eq!(budget.usage().used, 70 * KIB, "a slice keeps all of it");
        drop(part);
        assert_eq!(budget.usage().used, 0);
    }

    #[tokio::test]
    async fn a_body_that_does_not_fit_is_refused_and_released_and_another_principal_goes_on() {
        let budget = Budget::of_size(100 * KIB);
        let ((writer, mut one), (other_writer, mut two)) = (channel(), channel());
        let mut other = pin!(read(&mut two, LIMIT, open(budget, "b")));
        other_writer.send(10 * KIB).expect("read");
        assert!(poll!(&mut other).is_pending());
        let before = budget.usage().used;
        writer.send(50 * KIB).expect("read");
        writer.send(40 * KIB).expect("read");
        assert_eq!(read(&mut one, LIMIT, open(budget, "a")).await, Err(Refusal::MemoryExhausted));
        assert_eq!(budget.usage().used, before);
        drop(other_writer);
        assert_eq!(other.await.map(|body| body.len()), Ok(10 * KIB));
    }

    #[tokio::test]
    async fn a_body_that_is_given_up_or_too_large_is_released() {
        let budget = Budget::of_size(1_000 * KIB);
        let (writer, mut body) = channel();
        writer.send(60 * KIB).expect("read");
        {
            let mut reading = pin!(read(&mut body, LIMIT, open(budget, "a")));
            assert!(poll!(&mut reading).is_pending());
            assert!(budget.usage().used > 0);
        }
        assert_eq!(budget.usage().used, 0);
        writer.send(60 * KIB).expect("read");
        writer.send(60 * KIB).expect("read");
        let read = read(&mut body, LIMIT, open(budget, "a")).await;
        assert_eq!((read, budget.usage().used), (Err(Refusal::TooLarge { limit: LIMIT }), 0));
    }

    #[tokio::test]
    async fn trailers_are_charged_before_they_come_and_only_where_there_can_be_any() {
        let budget = Budget::of_size(1_000 * KIB);
        let (writer, mut body) = channel();
        {
            let mut reading = pin!(read(&mut body, LIMIT, open(budget, "a")));
            assert!(poll!(&mut reading).is_pending());
            assert_eq!(budget.usage().used, TRAILERS);
            writer.send(60 * KIB).expect("read");
            assert!(poll!(&mut reading).is_pending());
            assert!(budget.usage().used >= TRAILERS + 60 * KIB);
        }
        assert_eq!(budget.usage().used, 0);
        let none = trailers(&Full::new(Bytes::new()), open(Budget::of_size(0), "a"));
        assert!(none.is_ok_and(|charge| charge.is_none()), "the length of this body is known");
        assert!(trailers(&body, open(Budget::of_size(0), "a")).is_err());
    }

    #[tokio::test]
    async fn a_small_body_in_one_piece_is_neither_copied_nor_charged() {
        let full = Budget::of_size(0);
        let data = Bytes::from_static(b"hello");
        let whole =
            read(&mut Full::new(data.clone()), LIMIT, open(full, "a")).await.expect("it needs no room");
        assert_eq!(whole.as_ptr(), data.as_ptr());
        assert_eq!(read(&mut Full::new(Bytes::new()), LIMIT, open(full, "a")).await, Ok(Bytes::new()));
        let large = Bytes::from(vec![b'x'; SMALL]);
        let refused = read(&mut Full::new(large), LIMIT, open(full, "a")).await;
        assert_eq!(refused, Err(Refusal::MemoryExhausted));
    }
}
