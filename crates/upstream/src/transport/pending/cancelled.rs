//! Cancelled calls without a response. The server may still send requests for them.
//!
//! Invariants: a call is kept until its late response or the end of the channel. A server request that may belong to it
//! is therefore never sent to another client. At most 256 are kept one by one; the rest is counted together. If calls
//! have their own streams, requests for them arrive there, so a cancelled call counts for five seconds only.
//!
//! Not here: the handling of the connection meanwhile (`pool/replace`).

use std::time::Duration;

use tokio::time::Instant;

use crate::connection::Owner;

/// The most cancelled calls that are kept one by one.
const MAX_SINGLE: usize = 256;

/// How long a cancelled call counts on a channel whose calls have their own streams.
const STREAM_LIMIT: Duration = Duration::from_secs(5);

/// The cancelled calls of one channel without a response.
#[derive(Default)]
pub(super) struct Cancelled {
    single: Vec<One>,
    rest: Option<Overflow>,
    /// The time after which they no longer count, if there is one.
    limit: Option<Duration>,
}

struct One {
    id: u64,
    owner: Owner,
    since: Instant,
}

/// The calls beyond the first 256. No response shows that they have ended.
struct Overflow {
    /// `None` if they have several owners.
    owner: Option<Owner>,
    since: Instant,
}

impl Cancelled {
    /// The calls of a channel whose calls have their own streams.
    pub(super) fn of_streams() -> Self {
        Self { limit: Some(STREAM_LIMIT), ..Self::default() }
    }

    /// Adds a call that was cancelled now.
    pub(super) fn add(&mut self, id: u64, owner: Owner) {
        let since = Instant::now();
        let limit = self.limit;
        self.single.retain(|one| counts(one.since, limit));
        if self.single.len() < MAX_SINGLE {
            self.single.push(One { id, owner, since });
            return;
        }
        self.rest.take_if(|rest| !counts(rest.since, limit));
        let rest = self.rest.get_or_insert(Overflow { owner: Some(owner), since });
        rest.owner = rest.owner.filter(|other| *other == owner);
    }

    /// Removes a call that was answered late. Returns whether it was here.
    pub(super) fn answered(&mut self, id: u64) -> bool {
        let before = self.single.len();
        self.single.retain(|one| one.id != id);
        self.single.len() < before
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.single.is_empty() && self.rest.is_none()
    }

    /// When the oldest call of another owner than `owner` was cancelled, if there is one.
    pub(super) fn oldest_of_others(&self, owner: Owner) -> Option<Instant> {
        let single = self.single.iter().filter(|one| one.owner != owner).map(|one| one.since);
        let rest = self.rest.iter().filter(|rest| rest.owner != Some(owner)).map(|rest| rest.since);
        single.chain(rest).filter(|since| counts(*since, self.limit)).min()
    }
}

fn counts(since: Instant, limit: Option<Duration>) -> bool {
    limit.is_none_or(|limit| since.elapsed() < limit)
}
