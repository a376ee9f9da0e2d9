//! Selects the dialect of each request, and ends dialects that are not used.

use std::collections::HashMap;
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

/// How a group gives way to another one, in this order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum GivesWay {
    /// No session needs it. Those without a connection and those of the principal itself come first.
    Idle { is_foreign: bool, is_live: bool, used: Instant },
    /// Its session was unused since then.
    Unused(Claim, Instant),
    /// Its client has not answered a request of the server since then.
    Unanswered(Claim, Instant),
    /// It was used then, or is in use.
    Used { is_busy: bool, at: Instant },
}

/// The principal of a group, seen from the one that needs room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Own,
    /// That of the principal with most, which has at least two more.
    Most,
    Other,
}

impl GivesWay {
    fn idle(group: &Group, is_foreign: bool) -> Option<Self> {
        let is_live = !group.is_empty();
        let is_idle = !group.is_busy() && !group.belongs_to_session();
        is_idle.then(|| Self::Idle { is_foreign: is_foreign && is_live, is_live, used: group.used() })
    }

    fn unused(group: &Group, claim: Claim, affinity: &Affinity) -> Option<Self> {
        let since = affinity.unused_since().filter(|_| !group.is_busy())?;
        Some(Self::Unused(claim, since))
    }

    /// A shared group has other clients, too, and does not give way.
    fn unanswered(group: &Group, claim: Claim) -> Option<Self> {
        group.private.as_ref()?;
        Some(Self::Unanswered(claim, group.unanswered_since()?))
    }

    fn used(group: &Group) -> Self {
        Self::Used { is_busy: group.is_busy(), at: group.used() }
    }
}

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
            let is_watched = affinity.is_some_and(|affinity| self.private_clients.watches(affinity));
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

    /// Ends the private connections of `principal`, and those that are being opened with what it had before. Their clients
    /// connect again with their next requests.
    pub(crate) fn end_connections_of(&self, principal: &Arc<str>) {
        self.closes();
        let mut state = self.lock();
        state.groups.retain_mut(|group| {
            let is_its = group.private.is_some() && group.principal.as_ref() == Some(principal);
            if is_its {
                group.retire();
            }
            // A connect whose group is gone is dropped at its end.
            !is_its || group.connecting.is_none()
        });
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
        Some(
            self.groups
                .iter()
                .find(is_its)
                .and_then(|group| group.key.affinity)
                .unwrap_or(self.next_affinity),
        )
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
        if key.affinity == Some(self.next_affinity) {
            self.next_affinity += 1;
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
        if principal.is_some() && self.count(is_private, of) >= MAX_OWN {
            let is_made = self.end_first(|group| {
                let idle = GivesWay::idle(group, false);
                idle.or_else(|| GivesWay::unanswered(group, Claim::Own)).filter(|_| of(group))
            });
            return if is_made { Ok(()) } else { Err(full(MAX_OWN, "kinds of clients of one principal")) };
        }
        let is_made = is_private
            || self.count(false, |_| true) < MAX_DIALECTS
            || self.end_first(|group| GivesWay::idle(group, false).filter(|_| alike(group)));
        let what = "kinds of clients that share connections";
        if is_made { Ok(()) } else { Err(full(MAX_DIALECTS, what)) }
    }

    /// Ends a process that one client has, in the order of [`GivesWay`]. One in use ends if its client does not answer a
    /// request, and its principal has more than `principal`. It also ends if its principal has most and at least two more.
    fn make_process_room(&mut self, principal: Option<&Arc<str>>) -> bool {
        let of = |whose: &Option<Arc<str>>| self.count(true, |group| group.principal == *whose);
        let own = of(&principal.cloned());
        let private = self.groups.iter().filter(|group| group.private.is_some());
        let counts: HashMap<_, _> =
            private.map(|group| (group.principal.clone(), of(&group.principal))).collect();
        let most = counts.values().copied().max().unwrap_or_default();
        self.end_first(|group| {
            let affinity = &group.private.as_ref()?.affinity;
            let has = counts[&group.principal];
            let claim = if group.principal.as_ref() == principal {
                Claim::Own
            } else if has == most && has > own + 1 {
                Claim::Most
            } else {
                Claim::Other
            };
            let may_wait = claim == Claim::Other && has <= own;
            GivesWay::idle(group, claim != Claim::Own)
                .or_else(|| GivesWay::unused(group, claim, affinity))
                .or_else(|| GivesWay::unanswered(group, claim).filter(|_| !may_wait))
                .or_else(|| (claim == Claim::Most).then(|| GivesWay::used(group)))
        })
    }

    /// Ends the first group that gives way, and the session that it belongs to. Returns whether there was one.
    fn end_first(&mut self, gives_way: impl Fn(&Group) -> Option<GivesWay>) -> bool {
        let others = self.groups.iter().enumerate().filter(|(_, group)| group.key != self.base);
        let first = others.filter_map(|(at, group)| Some((gives_way(group)?, at))).min();
        let Some((_, at)) = first else { return false };
        let mut group = self.groups.swap_remove(at);
        let is_of_session = group.belongs_to_session();
        let requests = group.live.iter().filter_map(|live| live.connection.server_requests());
        requests.for_each(ServerRequests::end_unanswered);
        group.retire();
        if let Some(private) = group.private.filter(|_| is_of_session) {
            private.affinity.displace();
        }
        true
    }

    /// Counts the dialects besides the base one that are private or not, and for which `is_counted` is true.
    fn count(&self, is_private: bool, is_counted: impl Fn(&Group) -> bool) -> usize {
        let alike = |group: &&Group| group.key != self.base && group.private.is_some() == is_private;
        self.groups.iter().filter(alike).filter(|group| is_counted(group)).count()
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
        let inherited = self.find(key).map(|group| (group.private.clone(), group.principal.clone()));
        let at = self.groups.iter().position(|group| group.key == actual).unwrap_or_else(|| {
            let mut group = Group::new(actual);
            (group.private, group.principal) = inherited.unwrap_or_default();
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
