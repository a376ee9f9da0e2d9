//! The admission rule and the lifetime of charges.

use super::*;

const MIB: usize = 1024 * 1024;

fn principal(id: &str) -> Account {
    Account::Principal(id.into())
}

/// Charges of 1 MiB each, until the budget refuses one.
fn fill(budget: &'static Budget, id: &str) -> Vec<Charge> {
    std::iter::from_fn(|| {
        let mut charge = budget.open(principal(id), ChargeKind::Request);
        charge.resize(MIB).ok().map(|()| charge)
    })
    .collect()
}

#[test]
fn a_principal_that_is_alone_gets_three_quarters_and_a_newcomer_finds_room() {
    let budget = Budget::of_size(256 * MIB);
    let first = fill(budget, "a");
    assert_eq!(first.len(), 120, "of 160 MiB, which leave three eighths for overhead");
    let second = fill(budget, "b");
    assert_eq!(second.len(), 30, "three quarters of what is left");
    assert_eq!(budget.usage(), BudgetUsage { limit: 256 * MIB, used: 150 * MIB });
    let refusals: Vec<_> = budget.refusals().collect();
    assert_eq!(refusals, [("requests", 2), ("answers", 0), ("notices", 0)]);
    drop(first);
    assert_eq!(fill(budget, "b").len(), 90, "the rest of its three quarters");
}

#[test]
fn a_charge_lasts_as_long_as_the_last_slice_of_its_bytes() {
    let budget = Budget::of_size(MIB);
    let charge = budget.open(principal("a"), ChargeKind::Answer);
    let held = charge.hold(Bytes::from(vec![b'x'; 10_000])).expect("there is room");
    let slice = held.slice(5..10);
    drop(held);
    assert_eq!((budget.usage().used, &slice[..]), (10_000, &b"xxxxx"[..]));
    drop(slice);
    assert_eq!(budget.usage().used, 0);
    assert!(budget.lock().accounts.is_empty(), "an account without a charge costs nothing");
}

#[test]
fn a_refused_charge_stays_what_it_was_and_is_released_once() {
    let budget = Budget::of_size(100 * SMALL);
    let mut charge = budget.open(Account::Nobody, ChargeKind::Notice);
    assert_eq!(charge.resize(10 * SMALL), Ok(()));
    assert_eq!(charge.resize(90 * SMALL), Err(Exhausted { requested: 80 * SMALL }));
    assert_eq!(budget.usage().used, 10 * SMALL);
    assert_eq!((charge.resize(SMALL), budget.usage().used), (Ok(()), SMALL));
    drop(charge);
    assert_eq!(budget.usage().used, 0);
}

#[test]
fn a_growing_message_is_charged_in_few_steps_and_never_less_than_it_has() {
    let budget = Budget::of_size(100 * MIB);
    let mut charge = budget.open(Account::Nobody, ChargeKind::Answer);
    assert_eq!((charge.cover(SMALL - 1), charge.bytes), (Ok(()), 0));
    let mut steps = 0;
    for bytes in (SMALL..=8 * MIB).step_by(SMALL) {
        let before = charge.bytes;
        charge.cover(bytes).expect("there is room");
        assert!(charge.bytes >= bytes);
        steps += usize::from(charge.bytes != before);
    }
    assert!(steps < 40, "{steps}");
}

#[test]
fn the_sum_never_exceeds_the_limit_whatever_many_accounts_do() {
    let budget = Budget::of_size(64 * MIB);
    let held: Vec<_> = (0..100).flat_map(|number| fill(budget, &number.to_string())).collect();
    assert!(held.len() <= 64, "{}", held.len());
    budget.set_limit(MIB);
    assert!(fill(budget, "late").is_empty(), "a smaller limit refuses, and does not underflow");
}

/// Some bytes that live at a place of their own.
fn bytes(length: usize) -> Bytes {
    Bytes::from(vec![b'x'; length])
}

#[test]
fn bytes_that_are_charged_already_are_not_charged_again() {
    let budget = Budget::of_size(100 * SMALL);
    let hold = |bytes| budget.hold(bytes, principal("a"), ChargeKind::Answer).expect("there is room");
    let whole = bytes(8 * SMALL);
    let first = hold(whole.clone());
    let (again, part) = (hold(first.clone()), hold(whole.slice(SMALL..3 * SMALL)));
    let charge = budget.open(principal("b"), ChargeKind::Request);
    let charged = charge.hold(whole.slice(..SMALL)).expect("there is room");
    assert_eq!(budget.usage().used, 8 * SMALL);
    drop((first, again, charged));
    assert_eq!(budget.usage().used, 8 * SMALL, "a part of them is still held");
    drop(part);
    assert_eq!((budget.usage().used, budget.lock().ranges.len()), (0, 0), "others may keep them");
    drop(whole);
}

#[test]
fn the_last_holder_of_shared_bytes_pays_for_them() {
    let budget = Budget::of_size(100 * SMALL);
    let shared = bytes(8 * SMALL);
    let hold = |id| budget.hold(shared.clone(), principal(id), ChargeKind::Answer).expect("there is room");
    let share = |id| {
        let mut state = budget.lock();
        let taken = state.accounts.take(&principal(id), 0, 0);
        taken.err().unwrap_or(0)
    };
    let (first, second, third) = (hold("a"), hold("b"), hold("b"));
    assert_eq!((share("a"), share("b")), (8 * SMALL, 0));
    drop(second);
    drop(first);
    assert_eq!((share("a"), share("b")), (0, 8 * SMALL), "the first reader has read");
    drop(third);
    assert_eq!(budget.usage().used, 0);
}

#[test]
fn ranges_of_one_buffer_with_the_same_beginning_are_told_apart() {
    let budget = Budget::of_size(100 * SMALL);
    let hold = |bytes| budget.hold(bytes, principal("a"), ChargeKind::Answer).expect("there is room");
    let whole = bytes(8 * SMALL);
    let (short, long) = (hold(whole.slice(..2 * SMALL)), hold(whole.clone()));
    assert_eq!(budget.usage().used, 10 * SMALL, "the short one was charged before");
    drop(short);
    assert_eq!(budget.usage().used, 8 * SMALL);
    drop(long);
    assert_eq!(budget.usage().used, 0);
}

#[test]
fn bytes_that_live_as_long_as_the_program_are_not_charged() {
    let budget = Budget::of_size(100 * SMALL);
    let page = bytes(90 * SMALL);
    budget.exempt(&page);
    let held = budget.hold(page.clone(), principal("a"), ChargeKind::Answer).expect("it needs no room");
    drop(budget.hold(page, principal("a"), ChargeKind::Answer));
    assert_eq!(budget.usage().used, 0);
    drop(held);
    assert_eq!(budget.lock().ranges.len(), 1);
}

#[test]
fn an_answer_that_must_not_be_refused_is_charged_beyond_the_budget() {
    let budget = Budget::of_size(8 * SMALL);
    assert!(budget.hold(bytes(8 * SMALL), principal("a"), ChargeKind::Answer).is_err());
    let held = budget.hold_beyond(bytes(8 * SMALL), principal("a"));
    assert_eq!(budget.usage().used, 8 * SMALL);
    drop(held);
    assert_eq!(budget.usage().used, 0);
}
