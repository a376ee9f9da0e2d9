//! The reader of one recorded stream.
//!
//! Invariants: a stream has one reader at a time, and a newer one ends the older one. No event is read twice.
//! Not here: what is recorded (`replay`).

use std::sync::Arc;

use bytes::Bytes;

use super::Log;

/// Reads one stream.
#[derive(Debug)]
pub struct Reader {
    pub(super) log: Arc<Log>,
    pub(super) mine: u64,
    pub(super) next: u64,
}

enum Read {
    Event(Bytes),
    Wait,
    End,
}

impl Reader {
    /// The stream it reads.
    pub const fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Returns the next event as it is sent. Returns none if the stream has ended, if another reader
    /// took its place, or if it must be read on another connection. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Bytes> {
        let log = Arc::clone(&self.log);
        loop {
            let changed = log.changed.notified();
            match self.ready() {
                Read::Event(text) => return Some(text),
                Read::End => return None,
                Read::Wait => changed.await,
            }
        }
    }

    fn ready(&mut self) -> Read {
        let mut state = self.log.lock();
        if state.reader != self.mine {
            return Read::End;
        }
        let at = state.events.partition_point(|event| event.number < self.next);
        if let Some(event) = state.events.get(at) {
            self.next = event.number + 1;
            return Read::Event(event.text.clone());
        }
        if let Some((_, last)) = state.pause.take_if(|(reader, _)| *reader == self.mine) {
            state.reader += 1;
            return Read::Event(last);
        }
        if state.is_ended { Read::End } else { Read::Wait }
    }
}
