//! Tests of the invariants of the table, after any sequence of openings, endings and uses.

use proptest::prelude::*;

use super::*;
use crate::sessions::{RetainedBytes, Scope, SessionReader};
use auth::{Principal, Role};
use gateway::Caller;

const MAX: usize = 8;
const OWNERS: [&str; 4] = ["alice", "bob", "carol", "dave"];

#[derive(Debug, Clone)]
enum Step {
    Open(&'static str),
    /// Uses one of the open sessions.
    Use(prop::sample::Index),
    Hold(prop::sample::Index),
    Release,
    Remove(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::sample::select(&OWNERS[..]).prop_map(Step::Open),
        2 => any::<prop::sample::Index>().prop_map(Step::Use),
        2 => any::<prop::sample::Index>().prop_map(Step::Hold),
        1 => Just(Step::Release),
        1 => any::<prop::sample::Index>().prop_map(Step::Remove),
    ]
}

fn session(owner: &str, returned: &Returned) -> Arc<Session> {
    let caller = Caller::legacy(Principal::new(owner, Role::Reader), Scope::ALL, None);
    Arc::new(Session::new(caller, (RetainedBytes::default(), returned.clone()), false))
}

fn count(table: &SessionTable, owner: &str) -> usize {
    table.iter().filter(|session| &**session.owner() == owner).count()
}

fn some(table: &SessionTable, index: prop::sample::Index) -> Option<Arc<Session>> {
    let mut all: Vec<_> = table.iter().cloned().collect();
    all.sort_by(|one, two| one.id.cmp(&two.id));
    (!all.is_empty()).then(|| Arc::clone(index.get(&all)))
}

/// Opens a session for `owner` and checks which session gave up its slot.
fn open(table: &mut SessionTable, owner: &str) {
    if table.is_full() {
        let own = count(table, owner);
        let unused: Vec<_> =
            table.iter().filter(|session| session.unused_since().is_some()).cloned().collect();
        let oldest = |of: &dyn Fn(&str) -> bool| {
            let those = unused.iter().filter(|session| of(session.owner()));
            those.filter_map(|session| session.unused_since()).min()
        };
        let richer =
            unused.iter().map(|session| count(table, session.owner())).max().filter(|n| *n >= own + 2);
        let expected = oldest(&|other| other == owner)
            .or_else(|| richer.and(oldest(&|other| Some(count(table, other)) >= richer)))
            .or_else(|| oldest(&|_| true));
        let is_own = oldest(&|other| other == owner).is_some();
        let Some(gone) = table.displaced_by(owner) else {
            assert_eq!(expected, None, "one was unused");
            return;
        };
        assert!(gone.unused_since().is_some_and(|since| expected <= Some(since)), "not in use");
        assert_eq!(&**gone.owner() == owner, is_own, "the principal's own goes first");
        let of_same = unused.iter().filter(|session| session.owner() == gone.owner());
        let since = gone.unused_since();
        assert!(
            of_same.map(|session| session.unused_since()).all(|other| since <= other),
            "unused for longest"
        );
    }
    table.insert(session(owner, &table.returned.clone()));
}

proptest! {
    #[test]
    fn full_table_locks_no_principal_out(steps in prop::collection::vec(step(), 0..120)) {
        let (mut table, mut held) = (SessionTable::new(MAX, Returned::default()), Vec::<SessionReader>::new());
        for step in steps {
            match step {
                Step::Open(owner) => open(&mut table, owner),
                Step::Use(index) => drop(some(&table, index).map(|session| session.hold())),
                Step::Hold(index) => held.extend(some(&table, index).map(|session| session.hold())),
                Step::Release => drop(held.pop()),
                Step::Remove(index) => drop(some(&table, index).and_then(|session| table.remove(&session.id))),
            }
            prop_assert!(table.len() <= MAX);
            let counts = OWNERS.map(|owner| (count(&table, owner), owner));
            let ranking: Vec<_> = table.ranking.iter().map(|(count, owner)| (*count, &**owner)).collect();
            let mut expected: Vec<_> = counts.into_iter().filter(|(count, _)| *count > 0).collect();
            expected.sort_unstable();
            prop_assert_eq!(ranking, expected, "the books balance");
        }
    }
}

#[test]
fn the_one_unused_session_among_very_many_in_use_is_found_at_once_and_each_is_looked_at_once() {
    const MANY: usize = 1_000;
    let returned = Returned::default();
    let mut table = SessionTable::new(MANY + 1, returned.clone());
    let mut held = Vec::new();
    for _ in 0..MANY {
        let session = session("alice", &returned);
        held.push(session.hold());
        table.insert(session);
    }
    table.insert(session("bob", &returned));
    let gone = table.displaced_by("carol").expect("one is unused");
    assert_eq!((&**gone.owner(), table.ages.len()), ("bob", 0));
    assert!(table.displaced_by("carol").is_none());
    held.pop();
    assert!(table.displaced_by("carol").is_some(), "it reported that it is unused again");
    assert_eq!(table.len(), MANY - 1);
}
