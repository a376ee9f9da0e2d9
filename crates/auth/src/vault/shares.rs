//! The shares of the vault: how much of it the logins to one server, the logins of one principal, and the secrets of
//! principals may take.
//!
//! Invariants: however many logins and secrets of principals there are, the logins to a further server and static secrets
//! find room. The secrets of one principal leave room for those of others. A new entry leaves as much as a replaced one may
//! need, so that a renewed token is not lost because it grew.
//!
//! Not here: the limits of the whole file and of one value (`mod.rs`).

use super::container::Size;
use super::{Entry, EntryKind, MAX_ENTRIES, MAX_FILE_BYTES};

/// A share of the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The share of the logins to one server.
    Server,
    /// The share of the logins of one principal.
    Principal,
    /// The share of the secrets of all principals.
    Secrets,
    /// The share of the secrets of one principal.
    OwnSecrets,
}

/// Limit of the secrets of one principal.
pub(super) const MAX_OWN_SECRETS: usize = 32;

/// The count and the bytes of some entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    entries: usize,
    bytes: usize,
}

const WHOLE: Usage = Usage { entries: MAX_ENTRIES, bytes: MAX_FILE_BYTES };

impl Usage {
    fn of<'a>(sizes: impl Iterator<Item = &'a Size>) -> Self {
        sizes.fold(Self::default(), |usage, size| Self {
            entries: usage.entries + 1,
            bytes: usage.bytes + size.bytes,
        })
    }

    const fn without(self, other: Self) -> Self {
        Self {
            entries: self.entries.saturating_sub(other.entries),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Whether it is at most `parts` of `of` parts of `whole`.
    const fn is_within(self, whole: Self, (parts, of): (usize, usize)) -> bool {
        self.entries * of <= whole.entries * parts && self.bytes * of <= whole.bytes * parts
    }
}

/// Returns the share that `entry` exceeds among all entries, of which it is one. `is_new` says that it was not there
/// before. Static secrets of all, issuers and the keys of the authorization server have no share: the operator's file
/// alone makes them, and bounds them.
pub(super) fn exceeded(sizes: &[Size], entry: &Entry, is_new: bool) -> Option<Share> {
    if entry.is_secret_of_principal() {
        return exceeded_by_secret(sizes, entry, is_new);
    }
    if matches!(entry.kind, EntryKind::Secret | EntryKind::Issuer | EntryKind::Authorization) {
        return None;
    }
    let is_login = |size: &&Size| size.entry.as_ref().is_some_and(|entry| entry.kind != EntryKind::Secret);
    let of_server = |size: &&Size| size.entry.as_ref().is_some_and(|other| other.name == entry.name);
    let server = Usage::of(sizes.iter().filter(is_login).filter(of_server));
    let others = Usage::of(sizes.iter()).without(server);
    // Half of what others leave; a quarter more for entries that grow.
    if !server.is_within(WHOLE.without(others), if is_new { (2, 4) } else { (3, 4) }) {
        return Some(Share::Server);
    }
    let principal = entry.principal.as_deref()?;
    let of_principal =
        |size: &&Size| size.entry.as_ref().is_some_and(|other| other.principal.as_deref() == Some(principal));
    let principal = Usage::of(sizes.iter().filter(is_login).filter(of_principal));
    (!principal.is_within(WHOLE, if is_new { (1, 8) } else { (2, 8) })).then_some(Share::Principal)
}

fn exceeded_by_secret(sizes: &[Size], entry: &Entry, is_new: bool) -> Option<Share> {
    let of_principals = |size: &&Size| size.entry.as_ref().is_some_and(Entry::is_secret_of_principal);
    let all = Usage::of(sizes.iter().filter(of_principals));
    let others = Usage::of(sizes.iter()).without(all);
    if !all.is_within(WHOLE.without(others), if is_new { (2, 4) } else { (3, 4) }) {
        return Some(Share::Secrets);
    }
    let is_own = |size: &&Size| size.entry.as_ref().is_some_and(|other| other.principal == entry.principal);
    let own = sizes.iter().filter(of_principals).filter(is_own).count();
    (is_new && own > MAX_OWN_SECRETS).then_some(Share::OwnSecrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(server: &str, principal: &str) -> Entry {
        Entry { kind: EntryKind::Token, name: server.to_owned(), principal: Some(principal.to_owned()) }
    }

    /// Adds entries of `bytes` as long as there is a share. Returns how many there are.
    fn fill(sizes: &mut Vec<Size>, bytes: usize, entry: impl Fn(usize) -> Entry) -> usize {
        for at in 0..=MAX_ENTRIES {
            sizes.push(Size { entry: Some(entry(at)), bytes });
            if exceeded(sizes, &entry(at), true).is_some() {
                sizes.pop();
                return at;
            }
        }
        panic!("there is no limit")
    }

    #[test]
    fn each_server_leaves_half_of_what_it_found_and_renewed_tokens_may_grow() {
        let mut sizes = Vec::new();
        let of = |server: &'static str| move |at: usize| token(server, &format!("{server}-{at}"));
        assert_eq!(fill(&mut sizes, 100, of("one")), MAX_ENTRIES / 2);
        assert_eq!(fill(&mut sizes, 100, of("two")), MAX_ENTRIES / 4);
        assert_eq!(exceeded(&sizes, &of("one")(0), false), None, "a renewal");
        for kind in [EntryKind::Secret, EntryKind::Issuer, EntryKind::Authorization] {
            let entry = Entry { kind, name: "one".to_owned(), principal: None };
            sizes.push(Size { entry: Some(entry.clone()), bytes: 100 });
            assert_eq!(exceeded(&sizes, &entry, true), None, "{kind:?}");
        }

        let (mut large, bytes) = (Vec::new(), 60 << 10);
        let count = fill(&mut large, bytes, of("one"));
        assert_eq!(count, MAX_FILE_BYTES / 2 / bytes);
        large.iter_mut().take(count / 4).for_each(|size| size.bytes += 20 << 10);
        assert_eq!(exceeded(&large, &of("one")(0), false), None);
        for size in &mut large {
            size.bytes = 100 << 10;
        }
        assert_eq!(exceeded(&large, &of("one")(0), false), Some(Share::Server));
    }

    #[test]
    fn a_principal_has_an_eighth_over_all_servers() {
        let mut sizes = Vec::new();
        assert_eq!(fill(&mut sizes, 100, |at| token(&format!("server-{at}"), "ann")), MAX_ENTRIES / 8);
        assert_eq!(fill(&mut sizes, 100, |at| token(&format!("server-{at}"), "bob")), MAX_ENTRIES / 8);
        let shared = |at: usize| Entry { principal: None, ..token(&format!("shared-{at}"), "") };
        sizes.push(Size { entry: Some(shared(0)), bytes: 100 });
        assert_eq!(exceeded(&sizes, &shared(0), true), None);
    }

    #[test]
    fn secrets_of_principals_leave_half_and_one_principal_leaves_room_for_others() {
        let mut sizes = Vec::new();
        let own = |at: usize| Entry::secret_of("key:ann", &format!("S{at}"));
        assert_eq!(fill(&mut sizes, 4 << 10, own), MAX_OWN_SECRETS);
        assert_eq!(exceeded(&sizes, &own(0), false), None, "another value");
        let further = |at: usize| Entry::secret_of(&format!("key:{at}"), "S");
        assert_eq!(fill(&mut sizes, 100, further), MAX_ENTRIES / 2 - MAX_OWN_SECRETS);
        sizes.push(Size { entry: Some(further(MAX_ENTRIES)), bytes: 100 });
        assert_eq!(exceeded(&sizes, &further(MAX_ENTRIES), true), Some(Share::Secrets));
        sizes.pop();
        for entry in [token("one", "ann"), Entry::secret("S")] {
            sizes.push(Size { entry: Some(entry.clone()), bytes: 100 });
            assert_eq!(exceeded(&sizes, &entry, true), None, "{entry}");
            sizes.pop();
        }
    }
}
