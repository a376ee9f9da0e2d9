//! The calls that wait for a slot, and the order in which they get one.
//!
//! Invariants: principals take turns, and the calls of one principal keep their order. No principal gets two
//! turns while another waits the whole time. If the queue is full, a new call replaces the last call of the
//! longest line. It does so only if that line then still is at least as long as its own. So a principal
//! without waiting calls is accepted if another has two, and two principals never replace each other's calls
//! endlessly.
//!
//! Not here: how many calls may wait, and what happens to replaced ones.

use std::collections::VecDeque;
use std::sync::Arc;

/// Lines of waiting calls, one for each principal. `T` wakes a call.
#[derive(Debug)]
pub(super) struct Turns<T> {
    /// The line with the next turn comes first. No line is empty.
    lines: VecDeque<CallerQueue<T>>,
    last: u64,
}

#[derive(Debug)]
struct CallerQueue<T> {
    /// None: programs, which have no principal.
    who: Option<Arc<str>>,
    /// Calls with their numbers, which ascend.
    waiting: VecDeque<(u64, T)>,
}

impl<T> Turns<T> {
    pub(super) const fn new() -> Self {
        Self { lines: VecDeque::new(), last: 0 }
    }

    /// Adds a call at the end of the line of `who`. Returns its number.
    pub(super) fn join(&mut self, who: Option<&Arc<str>>, call: T) -> u64 {
        self.last += 1;
        let waiting = (self.last, call);
        match self.line_of(who) {
            Some(at) => self.lines[at].waiting.push_back(waiting),
            None => {
                self.lines.push_back(CallerQueue { who: who.cloned(), waiting: VecDeque::from([waiting]) });
            }
        }
        self.last
    }

    /// Removes and returns the next call of a principal that `may` run one, with the principal. That
    /// principal then comes last.
    pub(super) fn next(&mut self, may: impl Fn(Option<&Arc<str>>) -> bool) -> Option<(T, Option<Arc<str>>)> {
        let at = self.lines.iter().position(|line| may(line.who.as_ref()))?;
        let mut line = self.lines.remove(at)?;
        let (who, (_, call)) = (line.who.clone(), line.waiting.pop_front()?);
        if !line.waiting.is_empty() {
            self.lines.push_back(line);
        }
        Some((call, who))
    }

    /// Returns the number of waiting calls.
    pub(super) fn len(&self) -> usize {
        self.lines.iter().map(|line| line.waiting.len()).sum()
    }

    /// Whether a call of `who` waits.
    pub(super) fn has(&self, who: Option<&Arc<str>>) -> bool {
        self.line_of(who).is_some()
    }

    /// Whether calls of more than one principal wait.
    pub(super) fn are_several(&self) -> bool {
        self.lines.len() > 1
    }

    /// Whether a call of another principal waits.
    pub(super) fn has_others(&self, who: Option<&Arc<str>>) -> bool {
        self.lines.iter().any(|line| line.who.as_ref() != who)
    }

    /// Removes a call that stopped waiting.
    pub(super) fn leave(&mut self, who: Option<&Arc<str>>, number: u64) {
        let Some(at) = self.line_of(who) else { return };
        let waiting = &mut self.lines[at].waiting;
        if let Ok(place) = waiting.binary_search_by_key(&number, |(number, _)| *number) {
            waiting.remove(place);
        }
        if waiting.is_empty() {
            self.lines.remove(at);
        }
    }

    /// Removes the call that a new call of `who` replaces: the last one of the longest line. Returns none if
    /// no call may be replaced.
    pub(super) fn evict_for(&mut self, who: Option<&Arc<str>>) -> Option<T> {
        let own = self.line_of(who).map_or(0, |at| self.lines[at].waiting.len());
        let longest = self.lines.iter_mut().max_by_key(|line| line.waiting.len())?;
        if longest.waiting.len() < own + 2 {
            return None;
        }
        longest.waiting.pop_back().map(|(_, call)| call)
    }

    fn line_of(&self, who: Option<&Arc<str>>) -> Option<usize> {
        self.lines.iter().position(|line| line.who.as_ref() == who)
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
