//! Tests of fairness, after any sequence of new calls, turns and cancellations.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MOST: usize = 6;
const WHO: [Option<&str>; 4] = [None, Some("alice"), Some("bob"), Some("carol")];

#[derive(Debug, Clone)]
enum Step {
    Come(usize),
    Next,
    Leave(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..WHO.len()).prop_map(Step::Come),
        3 => Just(Step::Next),
        1 => any::<prop::sample::Index>().prop_map(Step::Leave),
    ]
}

/// The lines as an observer sees them.
#[derive(Default)]
struct Observer {
    clock: usize,
    /// How many calls joined a line so far.
    joined: u64,
    /// Waiting callers with their numbers, in order of arrival.
    waiting: Vec<(usize, u64)>,
    /// Since when each caller has had a line.
    since: BTreeMap<usize, usize>,
    /// When each caller got its last turn.
    called: BTreeMap<usize, usize>,
}

impl Observer {
    fn line(&self, who: usize) -> Vec<u64> {
        self.waiting.iter().filter(|(other, _)| *other == who).map(|(_, number)| *number).collect()
    }

    fn came(&mut self, who: usize, number: u64) {
        if self.line(who).is_empty() {
            self.since.insert(who, self.clock);
        }
        self.waiting.push((who, number));
    }

    fn went(&mut self, who: usize, number: u64) {
        self.waiting.retain(|waiting| *waiting != (who, number));
        if self.line(who).is_empty() {
            self.since.remove(&who);
        }
    }

    fn was_called(&mut self, who: usize, number: u64) {
        assert_eq!(self.line(who).first(), Some(&number), "in the order they came");
        // When this caller last went behind all others.
        let behind = self.since[&who].max(self.called.get(&who).copied().unwrap_or(0));
        for (other, since) in &self.since {
            let was_ahead = *other != who && *since < behind;
            let was_called = self.called.get(other).is_some_and(|called| *called > behind);
            assert!(!was_ahead || was_called, "{who} came before {other}");
        }
        self.called.insert(who, self.clock);
        self.went(who, number);
    }

    fn longest(&self) -> usize {
        (0..WHO.len()).map(|who| self.line(who).len()).max().unwrap_or(0)
    }
}

fn come(turns: &mut Turns<(usize, u64)>, seen: &mut Observer, (index, who): (usize, Option<&Arc<str>>)) {
    if seen.waiting.len() == MOST {
        let own = seen.line(index).len();
        let Some((other, number)) = turns.evict_for(who) else {
            assert!(seen.longest() < own + 2, "there was one who has more");
            return;
        };
        let line = seen.line(other);
        assert!(line.len() == seen.longest() && line.len() >= own + 2);
        assert_eq!(line.last(), Some(&number));
        seen.went(other, number);
    }
    seen.joined += 1;
    assert_eq!(turns.join(who, (index, seen.joined)), seen.joined);
    seen.came(index, seen.joined);
}

proptest! {
    #[test]
    fn turns_are_fair(steps in prop::collection::vec(step(), 0..150)) {
        let (mut turns, mut seen) = (Turns::new(), Observer::default());
        let who = WHO.map(|who| who.map(Arc::<str>::from));
        for step in steps {
            seen.clock += 1;
            match step {
                Step::Come(index) => come(&mut turns, &mut seen, (index, who[index].as_ref())),
                Step::Next => match turns.next(|_| true) {
                    Some(((index, number), _)) => seen.was_called(index, number),
                    None => prop_assert!(seen.waiting.is_empty()),
                },
                Step::Leave(_) if seen.waiting.is_empty() => {}
                Step::Leave(which) => {
                    let (index, number) = *which.get(&seen.waiting);
                    turns.leave(who[index].as_ref(), number);
                    seen.went(index, number);
                }
            }
            prop_assert!(turns.len() == seen.waiting.len() && turns.len() <= MOST);
            prop_assert!(turns.lines.iter().all(|line| !line.waiting.is_empty()));
        }
    }
}
