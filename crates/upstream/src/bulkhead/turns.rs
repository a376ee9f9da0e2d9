//! Who waits for a place, and whose turn it is.
//!
//! Invariants: principals come in turn, and the calls of one in the order they came: nobody is called
//! twice while another waits all the time and is not. Who is let in where there is no room takes it from
//! the longest line, and only where that is still no shorter than the own one then: so who has none
//! waiting finds room wherever anybody has two, and no two take from each other in turn.
//!
//! Not here: how many may wait, and what becomes of those who go.

use std::collections::VecDeque;
use std::sync::Arc;

/// Lines of those who wait, one for each principal that does, with what is needed to call them.
#[derive(Debug)]
pub(super) struct Turns<T> {
    /// Whose turn is next comes first; none is empty.
    lines: VecDeque<Line<T>>,
    last: u64,
}

#[derive(Debug)]
struct Line<T> {
    /// None: programs, which are nobody in particular.
    who: Option<Arc<str>>,
    /// By their numbers, which ascend.
    waiting: VecDeque<(u64, T)>,
}

impl<T> Turns<T> {
    pub(super) const fn new() -> Self {
        Self { lines: VecDeque::new(), last: 0 }
    }

    /// Waits at the end of the line of `who`, under the number that is returned.
    pub(super) fn join(&mut self, who: Option<&Arc<str>>, call: T) -> u64 {
        self.last += 1;
        let waiting = (self.last, call);
        match self.line_of(who) {
            Some(at) => self.lines[at].waiting.push_back(waiting),
            None => self.lines.push_back(Line { who: who.cloned(), waiting: VecDeque::from([waiting]) }),
        }
        self.last
    }

    /// Whose turn it is of those who `may` come, and who that is; then that principal comes last.
    pub(super) fn next(&mut self, may: impl Fn(Option<&Arc<str>>) -> bool) -> Option<(T, Option<Arc<str>>)> {
        let at = self.lines.iter().position(|line| may(line.who.as_ref()))?;
        let mut line = self.lines.remove(at)?;
        let (who, (_, call)) = (line.who.clone(), line.waiting.pop_front()?);
        if !line.waiting.is_empty() {
            self.lines.push_back(line);
        }
        Some((call, who))
    }

    /// How many callers wait.
    pub(super) fn len(&self) -> usize {
        self.lines.iter().map(|line| line.waiting.len()).sum()
    }

    /// Whether anybody waits in the line of `who`.
    pub(super) fn has(&self, who: Option<&Arc<str>>) -> bool {
        self.line_of(who).is_some()
    }

    /// Whether more than one principal waits.
    pub(super) fn are_several(&self) -> bool {
        self.lines.len() > 1
    }

    /// Whether anybody waits in another one.
    pub(super) fn has_others(&self, who: Option<&Arc<str>>) -> bool {
        self.lines.iter().any(|line| line.who.as_ref() != who)
    }

    /// Waits no longer.
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

    /// Takes out who has to go for one more of `who`: the last one of the longest line. None where none
    /// has to.
    pub(super) fn push_out_for(&mut self, who: Option<&Arc<str>>) -> Option<T> {
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
