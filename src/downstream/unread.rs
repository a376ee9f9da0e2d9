//! Answers over HTTP/2 that their client does not read. A connection may be well while one of its streams
//! has no room, and then nobody asks the body of that stream for more: what it holds (a place at a server,
//! a large answer) would be held for as long as the client likes. So whoever runs the stream looks on.
//!
//! Invariants: the time runs while something was handed over and was not sent, and each piece that is sent
//! begins it anew; while the answer itself has nothing to say it does not run; at its end the stream is
//! reset, and all that it held is dropped.
//!
//! Not here: HTTP/1, where the socket itself says how the reading goes (`activity`).

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use crate::telemetry::limit::Limit;

thread_local! {
    /// Whether the stream that is polled now was handed something last; none where it was not asked.
    static HANDED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// The body of the stream that is polled was asked, and gave something if it `is_handed` over.
pub(super) fn asked(is_handed: bool) {
    HANDED.set(Some(is_handed));
}

/// Runs `stream`, which answers one request, for as long as its client reads: it may leave what it is sent
/// unread for `limit` at a time.
pub(super) async fn while_read(stream: impl Future<Output = ()>, limit: Duration) {
    let mut watched = Watched { stream: pin!(stream), limit, alarm: None, runs: false };
    poll_fn(|cx| watched.poll(cx)).await;
}

struct Watched<'a, F> {
    stream: Pin<&'a mut F>,
    limit: Duration,
    /// Made for those alone that were stuck once.
    alarm: Option<Pin<Box<Sleep>>>,
    runs: bool,
}

impl<F: Future<Output = ()>> Watched<'_, F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        HANDED.set(None);
        if self.stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if let Some(is_handed) = HANDED.take() {
            self.runs = is_handed;
            if is_handed {
                self.wind();
            }
        }
        let Some(alarm) = self.alarm.as_mut().filter(|_| self.runs) else { return Poll::Pending };
        ready!(alarm.as_mut().poll(cx));
        tracing::debug!(limit = ?self.limit, "an answer was not read and is given up");
        Limit::UnreadAnswers.met(Poll::Ready(()))
    }

    fn wind(&mut self) {
        match &mut self.alarm {
            Some(alarm) => alarm.as_mut().reset(Instant::now() + self.limit),
            None => self.alarm = Some(Box::pin(sleep(self.limit))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// How a stream goes: after so many seconds its body is asked, and has something or not.
    async fn run(steps: &[(u64, bool)]) -> (Duration, bool) {
        let (mut steps, mut ends) = (VecDeque::from(steps.to_vec()), false);
        let begun = Instant::now();
        let stream = async {
            while let Some((seconds, is_handed)) = steps.pop_front() {
                sleep(Duration::from_secs(seconds)).await;
                asked(is_handed);
            }
            sleep(LIMIT * 10).await;
            ends = true;
        };
        while_read(stream, LIMIT).await;
        (begun.elapsed(), ends)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_sent_in_time_is_given_up() {
        assert_eq!(run(&[(5, true)]).await, (Duration::from_secs(35), false));
        let trickle = [(5, true), (29, true), (29, true)];
        assert_eq!(run(&trickle).await, (Duration::from_secs(93), false), "from the last piece on");
        let later = [(5, true), (1, false), (100, true)];
        assert_eq!(run(&later).await, (Duration::from_secs(136), false), "and as well after a pause");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_has_nothing_to_say_yet_is_waited_for() {
        assert_eq!(run(&[]).await, (LIMIT * 10, true), "its body was not asked");
        assert_eq!(run(&[(5, false)]).await, (LIMIT * 10 + Duration::from_secs(5), true));
        let sent = [(5, true), (29, true), (29, false)];
        assert_eq!(run(&sent).await, (LIMIT * 10 + Duration::from_secs(63), true));
    }
}
