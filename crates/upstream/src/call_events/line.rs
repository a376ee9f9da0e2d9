//! The bounded channel under an outlet: made for every call, but used by few.
//!
//! It has one sender and one reader. It takes one allocation until a message is sent. A channel of the runtime reserves
//! room for 32 messages at once, which cost a call more than finding its server did. Invariants: at most `capacity`
//! messages wait. Messages that were sent before the sender was dropped are read. When the reader is dropped, waiting
//! messages are dropped at once, which refuses server requests.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// Makes a channel and returns both ends.
pub(super) fn line<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { waiting: VecDeque::new(), reader: None, is_spoken: true, is_read: true };
    let line =
        EventChannel { capacity, state: Mutex::new(state), room: Notify::new(), bytes: AtomicUsize::new(0) };
    let line = Arc::new(line);
    (Sender(Arc::clone(&line)), Receiver(line))
}

/// The sending end.
pub(super) struct Sender<T>(Arc<EventChannel<T>>);

/// The receiving end.
pub(super) struct Receiver<T>(Arc<EventChannel<T>>);

struct EventChannel<T> {
    capacity: usize,
    state: Mutex<State<T>>,
    /// Notified for each message that is read, and when the reader is dropped.
    room: Notify,
    /// A counter for the bytes of waiting messages, which the user of the channel maintains.
    bytes: AtomicUsize,
}

struct State<T> {
    waiting: VecDeque<T>,
    reader: Option<Waker>,
    is_spoken: bool,
    is_read: bool,
}

/// The reason why a message could not be sent.
pub(super) enum SendError<T> {
    /// Too many messages wait. Contains the message.
    Full(T),
    /// The reader is gone.
    Unread,
}

impl<T> EventChannel<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends now, if there is room.
    pub(super) fn try_send(&self, item: T) -> Result<(), SendError<T>> {
        let mut state = self.0.lock();
        if !state.is_read {
            return Err(SendError::Unread);
        }
        if state.waiting.len() >= self.0.capacity {
            return Err(SendError::Full(item));
        }
        state.waiting.push_back(item);
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Sends as soon as there is room. Returns false if the reader is gone.
    pub(super) async fn send(&self, mut item: T) -> bool {
        loop {
            // Registered before the check, so that room that becomes free meanwhile is noticed.
            let room = self.0.room.notified();
            match self.try_send(item) {
                Ok(()) => return true,
                Err(SendError::Unread) => return false,
                Err(SendError::Full(unsent)) => item = unsent,
            }
            room.await;
        }
    }

    /// Whether there is a reader.
    pub(super) fn is_read(&self) -> bool {
        self.0.lock().is_read
    }

    /// The counter of waiting bytes.
    pub(super) fn bytes(&self) -> &AtomicUsize {
        &self.0.bytes
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_spoken = false;
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }
}

impl<T> Receiver<T> {
    /// Returns the next message; `None` when the sender is gone.
    pub(super) async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.lock();
        if let Some(item) = state.waiting.pop_front() {
            drop(state);
            self.0.room.notify_one();
            return Poll::Ready(Some(item));
        }
        if !state.is_spoken {
            return Poll::Ready(None);
        }
        if !state.reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
            state.reader = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Returns the next message, if one waits.
    pub(super) fn take(&mut self) -> Option<T> {
        let item = self.0.lock().waiting.pop_front()?;
        self.0.room.notify_one();
        Some(item)
    }

    /// The counter of waiting bytes.
    pub(super) fn bytes(&self) -> &AtomicUsize {
        &self.0.bytes
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_read = false;
        let (waiting, reader) = (std::mem::take(&mut state.waiting), state.reader.take());
        drop(state); // dropped messages may use the channel
        drop((waiting, reader));
        self.0.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use runtime::shutdown::Shutdown;

    #[tokio::test]
    async fn events_sent_before_the_sender_was_dropped_are_read() {
        let (sender, mut reader) = line(2);
        assert!(sender.try_send(1).is_ok() && sender.send(2).await);
        assert!(matches!(sender.try_send(3), Err(SendError::Full(3))));
        drop(sender);
        assert_eq!((reader.next().await, reader.take()), (Some(1), Some(2)));
        assert_eq!((reader.next().await, reader.take()), (None, None));
    }

    #[tokio::test]
    async fn sender_that_waits_for_room_gets_it_or_learns_that_the_receiver_is_gone() {
        let (sender, mut reader) = line(1);
        assert!(sender.send(1).await);
        let mut second = Box::pin(sender.send(2));
        let mut third = Box::pin(sender.send(3));
        assert_eq!((second.as_mut().now_or_never(), third.as_mut().now_or_never()), (None, None));
        assert_eq!(reader.next().await, Some(1));
        let item = tokio::select! { item = &mut second => item, item = &mut third => item };
        assert!(item, "one of them got the room");
        drop(reader);
        assert!(!sender.send(4).await);
    }

    #[tokio::test(start_paused = true)]
    async fn each_place_that_becomes_free_wakes_one_who_waits() {
        let (sender, mut reader) = line(2);
        assert!(sender.send(1).await && sender.send(2).await);
        let (sender, shutdown) = (Arc::new(sender), Shutdown::new());
        for number in [3, 4] {
            let sender = Arc::clone(&sender);
            shutdown.spawn(async move { assert!(sender.send(number).await) });
        }
        tokio::task::yield_now().await;
        assert_eq!((reader.take(), reader.take()), (Some(1), Some(2)));
        assert!(shutdown.wait(Duration::from_secs(1)).await, "somebody sleeps although there is room");
        assert_eq!((reader.take(), reader.take()), (Some(3), Some(4)));
    }

    #[tokio::test]
    async fn all_who_wait_learn_that_nobody_reads() {
        let (sender, reader) = line(1);
        assert!(sender.send(1).await);
        let (mut second, mut third) = (Box::pin(sender.send(2)), Box::pin(sender.send(3)));
        assert_eq!((second.as_mut().now_or_never(), third.as_mut().now_or_never()), (None, None));
        drop(reader);
        assert_eq!((second.await, third.await), (false, false));
    }

    #[tokio::test]
    async fn a_reader_is_woken_by_what_is_said_and_by_the_end() {
        let (sender, mut reader) = line(1);
        let (read, ()) = tokio::join!(reader.next(), async { assert!(sender.send(1).await) });
        assert_eq!(read, Some(1));
        let (read, ()) = tokio::join!(reader.next(), async { drop(sender) });
        assert_eq!(read, None);
    }
}
