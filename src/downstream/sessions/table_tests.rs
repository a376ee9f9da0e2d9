//! What the table promises, after any sequence of openings, endings and uses.

use proptest::prelude::*;

use super::*;
use crate::auth::{Principal, Role};
use crate::downstream::sessions::{Held, Kept, Scope};
use crate::gateway::Caller;

const MAX: usize = 8;
const OWNERS: [&str; 4] = ["alice", "bob", "carol", "dave"];

#[derive(Debug, Clone)]
enum Step {
    Open(&'static str),
    /// One of those that are there.
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

fn session(owner: &str) -> Arc<Session> {
    let caller = Caller::legacy(Principal::new(owner, Role::Reader), Scope::All, None);
    Arc::new(Session::new(caller, Kept::default(), false))
}

fn count(table: &Table, owner: &str) -> usize {
    table.iter().filter(|session| &**session.owner() == owner).count()
}

fn some(table: &Table, index: prop::sample::Index) -> Option<Arc<Session>> {
    let mut all: Vec<_> = table.iter().cloned().collect();
    all.sort_by(|one, two| one.id.cmp(&two.id));
    (!all.is_empty()).then(|| Arc::clone(index.get(&all)))
}

/// Opens one for `owner` and checks what had to go for it.
fn open(table: &mut Table, owner: &str) {
    if table.is_full() {
        let own = count(table, owner);
        let unused: Vec<_> =
            table.iter().filter(|session| session.unused_since().is_some()).cloned().collect();
        let may_give = |session: &&Arc<Session>| count(table, session.owner()) >= own + 2;
        let most = unused.iter().filter(may_give).map(|session| count(table, session.owner())).max();
        let Some(gone) = table.displaced_by(owner) else {
            assert_eq!(most, None, "there was one who has more");
            return;
        };
        assert_eq!(most, Some(count(table, gone.owner()) + 1), "of one who has most");
        let since = gone.unused_since().expect("not in use");
        let others = unused.iter().filter(|session| session.owner() == gone.owner());
        assert!(others.filter_map(|session| session.unused_since()).all(|other| since <= other));
    }
    table.insert(session(owner));
}

proptest! {
    #[test]
    fn nobody_is_locked_out(steps in prop::collection::vec(step(), 0..120)) {
        let (mut table, mut held) = (Table::new(MAX), Vec::<Held>::new());
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
fn of_very_many_in_use_some_are_passed_over_at_a_time() {
    let mut table = Table::new(4 * LOOKS);
    let mut held = Vec::new();
    for number in 0..4 * LOOKS {
        let session = session("alice");
        if number < 2 * LOOKS {
            held.push(session.hold());
        }
        table.insert(session);
    }
    assert!(
        table.displaced_by("bob").is_none() && table.displaced_by("bob").is_none(),
        "all looked at are in use"
    );
    let gone = table.displaced_by("bob").expect("those are at the end now");
    assert!(gone.unused_since().is_some() && table.len() == 4 * LOOKS - 1);
}
