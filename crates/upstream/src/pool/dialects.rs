//! Selects the dialect of each request, and ends dialects that are not used.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::group::{Group, IDLE_LIMIT};
use super::{Pool, State};
use crate::connection::{Call, ServerRequests};
use crate::dialect::{Key, PoolRequest, Private};
use crate::error::Error;
use crate::session_affinity::Affinity;
use protocol::{Abilities, Era};

/// Most dialects besides the base one that have connections.
pub(super) const MAX_DIALECTS: usize = 16;
/// Most of these dialects for one principal.
const MAX_OWN: usize = MAX_DIALECTS / 2;
/// Retry hint if there are too many.
const RETRY_IN: Duration = Duration::from_secs(5);

impl Pool {
    /// Returns the dialect for `request`, as far as the eras of the server are known, and whether it is the base
    /// dialect.
    pub(super) fn key(&self, state: &State, request: PoolRequest<'_>) -> (Key, bool) {
        let base = || {
            let era =
                if self.connector.speaks(Era::Modern) == Some(false) { Era::Legacy } else { Era::Modern };
            let is_there = state.find(state.base).is_some_and(|group| !group.live.is_empty());
            if is_there { state.base } else { Key::BASE.in_era(era) }
        };
        let PoolRequest::Of(call) = request else { return (base(), true) };
        let is_private = |affinity| self.is_private_to(affinity, &call.sender.capabilities);
        let affinity =
            call.affinity.as_ref().is_some_and(is_private).then(|| state.affinity_of(call)).flatten();
        // Programs use Switchyard's own connections.
        let is_program = affinity.is_none() && call.affinity.as_ref().is_some_and(Affinity::is_of_program);
        let era = match self.era_for(call.era) {
            _ if is_program => return (base(), true),
            Some(era) => era,
            None if self.limits.is_per_principal && affinity.is_some() => Era::Modern,
            // The first connection finds it out, which is the base one if there is any.
            None => return (base(), true),
        };
        let key = match era {
            Era::Modern => Key { affinity, ..Key::BASE },
            Era::Legacy if affinity.is_some() => Key { affinity, ..Key::BASE.in_era(era) },
            Era::Legacy => {
                let abilities = self.connector.declares(Abilities::of(&call.sender.capabilities));
                Key { era, abilities, affinity }
            }
        };
        (key, false)
    }

    /// Ends the connections of a dialect when its client is gone, or when they are idle.
    pub(super) async fn retire_in_time(self: Arc<Self>, key: Key, private: Option<Private>) {
        let affinity = private.map(|private| private.affinity);
        let Some(affinity) = affinity.filter(|affinity| !affinity.ends_when_idle()) else {
            return self.retire_when_idle(key).await;
        };
        affinity.ended().await;
        self.lock().remove(key);
    }

    /// Waits until a dialect was idle for a while, and ends its connections.
    async fn retire_when_idle(self: Arc<Self>, key: Key) {
        let mut due = Instant::now() + IDLE_LIMIT;
        loop {
            sleep_until(due).await;
            let mut state = self.lock();
            let base = state.base;
            let Some(at) = state.groups.iter().position(|group| group.key == key) else { return };
            let group = &state.groups[at];
            due = group.used() + IDLE_LIMIT;
            if due > Instant::now() {
                continue;
            }
            let affinity = group.private.as_ref().map(|private| &private.affinity);
            let is_watched = affinity.is_some_and(|affinity| self.attended.watches(affinity));
            if key != base && !is_watched && !group.is_busy() && group.flap_backoff.held_until().is_none() {
                state.groups.swap_remove(at).retire();
                return;
            }
            due = Instant::now() + IDLE_LIMIT;
        }
    }
}

impl Pool {
    /// Refuses the server request that its client has not answered for longest, so that its call ends.
    pub(crate) fn end_unanswered(&self) {
        let state = self.lock();
        let oldest = state.groups.iter().flat_map(|group| &group.live).filter_map(|live| {
            let open = live.connection.server_requests()?;
            Some((open.unanswered_since()?, open))
        });
        if let Some((_, open)) = oldest.min_by_key(|(since, _)| *since) {
            open.end_unanswered();
        }
    }

    /// Ends the private connections of `principal`. Their clients connect again with their next requests.
    pub(crate) fn end_connections_of(&self, principal: &Arc<str>) {
        self.closes();
        let mut state = self.lock();
        for group in &mut state.groups {
            if group.private.is_some() && group.principal.as_ref() == Some(principal) {
                group.retire();
            }
        }
    }
}

impl State {
    /// Returns the number of the client of `call`: the number of its group, or the next free one. Programs
    /// have none, because they have no private connections. A client keeps its number as long as its group
    /// exists.
    fn affinity_of(&self, call: &Call) -> Option<u64> {
        let affinity = call.affinity.as_ref()?;
        let is_its =
            |group: &&Group| group.private.as_ref().is_some_and(|private| private.affinity == *affinity);
        Some(self.groups.iter().find(is_its).and_then(|group| group.key.affinity).unwrap_or(self.next_home))
    }

    /// Returns the group of `key`, and makes it if needed. If there are too many, another group ends. If none
    /// may end, the nearest shared dialect is used instead.
    pub(super) fn group(
        &mut self,
        key: Key,
        request: PoolRequest<'_>,
        processes: Option<usize>,
    ) -> Result<usize, Error> {
        let base = self.base;
        if let Some(at) = self.groups.iter().position(|group| group.key == key) {
            if key != base {
                self.groups[at].touch();
            }
            return Ok(at);
        }
        let private = key.affinity.and(request.private());
        if key != base {
            let made = self.make_room(private.as_ref(), request.principal(), processes);
            if let Err(full) = made {
                return self.nearest(key).ok_or(full);
            }
        }
        let mut group = Group::new(key);
        group.private = private;
        group.principal = request.principal().cloned();
        if key.affinity == Some(self.next_home) {
            self.next_home += 1;
        }
        self.groups.push(group);
        Ok(self.groups.len() - 1)
    }

    /// Makes room for a group of `private`, or for a shared one. Sessions at a server have no limit of their own, but
    /// there are at most `processes`. If `principal` has more than its share, an idle group of that principal ends.
    fn make_room(
        &mut self,
        private: Option<&Private>,
        principal: Option<&Arc<str>>,
        processes: Option<usize>,
    ) -> Result<(), Error> {
        let full = |most, what| Error::Full { most, what, retry_in: RETRY_IN };
        if private.is_some()
            && let Some(most) = processes
        {
            let is_made = self.count(true, |_| true) < most || self.make_process_room(principal);
            return if is_made {
                Ok(())
            } else {
                Err(full(most, "processes that clients have of their own"))
            };
        }
        let is_private = private.is_some();
        if private.is_some_and(|private| !private.affinity.ends_when_idle()) {
            return Ok(());
        }
        let alike = |group: &Group| group.private.is_some() == is_private && !group.belongs_to_session();
        let of = |group: &Group| alike(group) && group.principal.as_ref() == principal;
        let what = "kinds of clients that share connections";
        if principal.is_some() && self.count(is_private, of) >= MAX_OWN {
            let is_made = self.end_idle(of) || self.take_unanswered(of);
            return if is_made { Ok(()) } else { Err(full(MAX_OWN, "kinds of clients of one principal")) };
        }
        let is_made = is_private || self.count(false, |_| true) < MAX_DIALECTS || self.end_idle(alike);
        if is_made { Ok(()) } else { Err(full(MAX_DIALECTS, what)) }
    }

    /// Ends a process that one client has. Idle ones give way first: those of no session, and among these one of
    /// `principal`, then that of the session that was unused for longest. The order is that of the session table: first
    /// one of `principal`, then one of the principal with most if that has at least two more, then any. If all are in
    /// use, one gives way whose client does not answer a request of the server, but none of a principal with as few as
    /// `principal`. Otherwise the principal with at least two more loses one, without a running call if there is one.
    fn make_process_room(&mut self, principal: Option<&Arc<str>>) -> bool {
        let is_own = |group: &Group| group.principal.as_ref() == principal;
        let is_free = |group: &Group| group.private.is_some() && !group.belongs_to_session();
        let most = self.most_private(self.count(true, is_own));
        self.end_idle(|group| is_free(group) && (group.is_empty() || is_own(group)))
            || self.end_idle(is_free)
            || self.displace(is_own)
            || most.as_ref().is_some_and(|whose| self.displace(|group| group.principal == *whose))
            || self.displace(|_| true)
            || self.take_unanswered_process(principal, most.as_ref())
            || most.is_some_and(|whose| self.take_from(whose.as_ref()))
    }

    /// Ends a process whose client does not answer a request of the server. The order is: one of `principal`, one of the
    /// principal with `most`, one of any other principal with more than `principal`.
    fn take_unanswered_process(
        &mut self,
        principal: Option<&Arc<str>>,
        most: Option<&Option<Arc<str>>>,
    ) -> bool {
        let is_own = |group: &Group| group.principal.as_ref() == principal;
        if self.take_unanswered(is_own)
            || most.is_some_and(|whose| self.take_unanswered(|group| group.principal == *whose))
        {
            return true;
        }
        let own = self.count(true, is_own);
        let has_more = |group: &&Group| self.count(true, |other| other.principal == group.principal) > own;
        let theirs: Vec<Key> = self.groups.iter().filter(has_more).map(|group| group.key).collect();
        self.take_unanswered(|group| theirs.contains(&group.key))
    }

    /// Ends the private group, of those that `may_end`, whose client has not answered a request of the server for longest.
    /// A shared one has other clients, too.
    fn take_unanswered(&mut self, may_end: impl Fn(&Group) -> bool) -> bool {
        let private = self.groups.iter().filter_map(|group| Some((group, group.private.as_ref()?)));
        let oldest = private
            .filter(|(group, _)| may_end(group))
            .filter_map(|(group, private)| Some((group.unanswered_since()?, group, private)))
            .min_by_key(|(at, ..)| *at);
        let Some((_, group, private)) = oldest else { return false };
        group
            .live
            .iter()
            .filter_map(|live| live.connection.server_requests())
            .for_each(ServerRequests::end_unanswered);
        let (key, affinity) = (group.key, private.affinity.clone());
        self.remove(key);
        affinity.displace();
        true
    }

    /// Ends the process of `principal` that was unused for longest, although a session uses it.
    fn take_from(&mut self, principal: Option<&Arc<str>>) -> bool {
        let its = |group: &&Group| group.private.is_some() && group.principal.as_ref() == principal;
        let Some(group) = self.groups.iter().filter(its).min_by_key(|group| (group.is_busy(), group.used()))
        else {
            return false;
        };
        let (key, affinity) = (group.key, group.private.as_ref().map(|private| private.affinity.clone()));
        self.remove(key);
        affinity.iter().for_each(Affinity::displace);
        true
    }

    /// Returns the principal with most private connections, if it has at least two more than `own`.
    #[allow(clippy::option_option)] // the inner one says whether there is authentication
    fn most_private(&self, own: usize) -> Option<Option<Arc<str>>> {
        let count = |whose: &Option<Arc<str>>| self.count(true, |group| group.principal == *whose);
        let private = self.groups.iter().filter(|group| group.private.is_some());
        let richest = private.map(|group| (count(&group.principal), &group.principal)).max()?;
        (richest.0 > own + 1).then(|| richest.1.clone())
    }

    /// Ends the session that was unused for longest, with its private connection. Only sessions whose
    /// connection `may_end` are considered.
    fn displace(&mut self, may_end: impl Fn(&Group) -> bool) -> bool {
        let unused = |group: &Group| {
            let affinity = &group.private.as_ref()?.affinity;
            Some((affinity.unused_since()?, group.key, affinity.clone()))
        };
        let groups = self.groups.iter().filter(|group| !group.is_busy() && may_end(group));
        let Some((_, key, affinity)) = groups.filter_map(unused).min_by_key(|(since, ..)| *since) else {
            return false;
        };
        self.remove(key);
        affinity.displace();
        true
    }

    /// Counts the dialects besides the base one that are private or not, and for which `is_counted` is true.
    fn count(&self, is_private: bool, is_counted: impl Fn(&Group) -> bool) -> usize {
        let alike = |group: &&Group| group.key != self.base && group.private.is_some() == is_private;
        self.groups.iter().filter(alike).filter(|group| is_counted(group)).count()
    }

    /// Ends the dialect that was unused for longest, of those that `may_end`. One without connections ends
    /// first.
    fn end_idle(&mut self, may_end: impl Fn(&Group) -> bool) -> bool {
        let base = self.base;
        let idle = self.groups.iter().filter(|group| group.key != base && !group.is_busy() && may_end(group));
        let oldest = idle.min_by_key(|group| (!group.is_empty(), group.used())).map(|group| group.key);
        oldest.inspect(|key| self.remove(*key)).is_some()
    }

    /// Returns the connected shared dialect nearest to `key`: it lacks the fewest of the client's abilities,
    /// and has the fewest others. In each dialect, `questions` refuses server requests that the client did
    /// not declare.
    fn nearest(&self, key: Key) -> Option<usize> {
        let fits = |group: &Group| {
            key.affinity.is_none() && group.key.affinity.is_none() && group.key.era == key.era
        };
        let there = self.groups.iter().enumerate().filter(|(_, group)| fits(group) && !group.live.is_empty());
        there.min_by_key(|(_, group)| key.abilities.distance(group.key.abilities)).map(|(at, _)| at)
    }

    /// Ends the dialect and its connections.
    pub(super) fn remove(&mut self, key: Key) {
        if let Some(at) = self.groups.iter().position(|group| group.key == key) {
            self.groups.swap_remove(at).retire();
        }
    }

    /// Handles the end of a connect for `key`. If it left no connection, the group of a client is removed, so
    /// that it takes no room.
    pub(super) fn tried(&mut self, key: Key) {
        if key.affinity.is_some() && self.find(key).is_some_and(Group::is_empty) {
            self.remove(key);
        }
    }

    pub(super) fn find_mut(&mut self, key: Key) -> Option<&mut Group> {
        self.groups.iter_mut().find(|group| group.key == key)
    }

    pub(super) fn find(&self, key: Key) -> Option<&Group> {
        self.groups.iter().find(|group| group.key == key)
    }

    /// Returns the group of a connection that was requested as `key` and actually speaks `era`.
    pub(super) fn settled(&mut self, key: Key, era: Era) -> &mut Group {
        let actual = key.in_era(era);
        if key == self.base && key != actual {
            self.move_base(actual);
        }
        let wanted = self.find(key).map(|group| (group.private.clone(), group.principal.clone()));
        let at = self.groups.iter().position(|group| group.key == actual).unwrap_or_else(|| {
            let mut group = Group::new(actual);
            (group.private, group.principal) = wanted.unwrap_or_default();
            self.groups.push(group);
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    /// Changes the base dialect, because the server speaks only that era.
    pub(super) fn move_base(&mut self, key: Key) {
        let before = std::mem::replace(&mut self.base, key);
        // Callers that wait for a connect in the old dialect hold its result themselves.
        self.groups.retain(|group| group.key != before || !group.live.is_empty());
    }
}

#[cfg(test)]
#[path = "dialect_tests.rs"]
pub(super) mod tests;

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod affinity_tests;
