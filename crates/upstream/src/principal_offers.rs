//! The last offers of one server to single principals, each of which has a credential of its own: a login, or a secret.
//!
//! Invariants: an offer is found by its principal only, while the principal is logged in with the account that it was
//! offered to, and has the same secrets. It ends with them. Principals are kept as salted hashes. Equal offers are kept
//! once. All offers have at most [`MAX_BYTES`], for at most [`MAX_PRINCIPALS`]; the one that was not read for the longest
//! time gives way. Their memory is charged to the server.
//!
//! Not here: the file that has them between two runs (`manager::remembered`), and who sees them (`private_clients`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::Upstream;
use super::discover::charge;
use super::offer::Offer;
use json::Raw;
use oauth::{LoginState, Logins};

/// Most bytes of all different offers.
const MAX_BYTES: usize = 4 << 20;
/// Most principals.
const MAX_PRINCIPALS: usize = 1_024;

/// The offers of one server. Shared with its successors.
#[derive(Debug)]
pub struct PrincipalOffers {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Makes a hash of a principal of no use elsewhere.
    salt: String,
    entries: HashMap<String, Entry>,
    /// The bytes of all different offers.
    bytes: usize,
    /// Changes when an offer comes, goes or is another one.
    changes: u64,
}

#[derive(Debug)]
struct Entry {
    /// The hash of the account.
    account: String,
    /// As [`Offer::to_stored`] made it.
    offer: Raw,
    read_at: SystemTime,
}

/// A principal that is logged in, and the name of its account.
#[derive(PartialEq, Eq)]
pub(super) struct LoggedIn<'a> {
    principal: &'a str,
    account: Option<String>,
}

impl<'a> LoggedIn<'a> {
    /// The login of `principal`; `None` without one.
    pub(super) fn of(logins: &Logins, principal: &'a Arc<str>) -> Option<Self> {
        let status = logins.status(Some(principal));
        (status.state == LoginState::LoggedIn).then_some(Self { principal, account: status.account })
    }
}

impl Default for PrincipalOffers {
    fn default() -> Self {
        let salt = hex::encode(Uuid::new_v4().as_bytes());
        Self { state: Mutex::new(State { salt, entries: HashMap::new(), bytes: 0, changes: 0 }) }
    }
}

impl PrincipalOffers {
    /// Records what `server` offers to a principal.
    fn learn(&self, login: &LoggedIn<'_>, server: &Arc<str>, offer: &Offer) {
        let mut offer = if offer.bytes > MAX_BYTES { return } else { offer.to_stored() };
        let mut state = self.lock();
        let (key, account) = (state.hash(login.principal), state.hash_of_account(login));
        if let Some(same) = state.entries.values().find(|entry| entry.offer == offer) {
            offer = same.offer.clone();
        } else if charge(vec![&mut offer], server).is_err() {
            return; // it is read again at the next start
        }
        let entry = Entry { account, offer, read_at: SystemTime::now() };
        let before = state.entries.get(&key);
        if before.is_none_or(|before| (&before.account, &before.offer) != (&entry.account, &entry.offer)) {
            state.changes += 1;
        }
        state.insert(key, entry);
        state.make_room();
    }

    /// Returns what was offered to a principal.
    fn of(&self, login: &LoggedIn<'_>) -> Option<Raw> {
        let state = self.lock();
        let entry = state.entries.get(&state.hash(login.principal))?;
        (entry.account == state.hash_of_account(login)).then(|| entry.offer.clone())
    }

    /// Forgets what was offered to `principal`.
    fn forget(&self, principal: &str) {
        let mut state = self.lock();
        let key = state.hash(principal);
        if state.remove(&key) {
            state.changes += 1;
        }
    }

    /// A number that changes with the offers.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    /// Returns all offers as JSON.
    pub fn to_stored(&self) -> Raw {
        let state = self.lock();
        let (mut offers, mut places) = (Vec::new(), HashMap::new());
        let mut entries = Vec::new();
        for (key, Entry { account, offer, read_at }) in &state.entries {
            let at = *places.entry(address(offer)).or_insert_with(|| {
                offers.push(offer);
                offers.len() - 1
            });
            let seconds = read_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            entries.push(Raw::object(&[
                ("principal", &Raw::of(key)),
                ("account", &Raw::of(account)),
                ("readAt", &Raw::of(&seconds)),
                ("offer", &Raw::of(&at)),
            ]));
        }
        Raw::object(&[
            ("salt", &Raw::of(&state.salt)),
            ("offers", &Raw::of(&offers)),
            ("entries", &Raw::of(&entries)),
        ])
    }

    /// Reads the offers of `server` that [`PrincipalOffers::to_stored`] wrote; `None` if they are something else.
    pub fn from_stored(stored: &Raw, server: &Arc<str>) -> Option<Self> {
        let mut offers: Vec<Raw> = stored.get("offers")?.elements().collect();
        if !offers.is_empty() {
            charge(offers.iter_mut().collect(), server).ok()?;
        }
        let mut state = State { salt: stored.get_as("salt")?, entries: HashMap::new(), bytes: 0, changes: 0 };
        for entry in stored.get("entries")?.elements() {
            let offer = offers.get(entry.get_as::<usize>("offer")?)?.clone();
            let read_at = UNIX_EPOCH.checked_add(Duration::from_secs(entry.get_as("readAt")?))?;
            let read = Entry { account: entry.get_as("account")?, offer, read_at };
            state.insert(entry.get_as("principal")?, read);
        }
        state.make_room();
        Some(Self { state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every entry is written as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hash(&self, text: &str) -> String {
        hex::encode(&Sha256::new_with_prefix(&self.salt).chain_update(text).finalize()[..16])
    }

    fn hash_of_account(&self, login: &LoggedIn<'_>) -> String {
        self.hash(login.account.as_deref().unwrap_or_default())
    }

    /// Forgets the oldest offers until there is room.
    fn make_room(&mut self) {
        while self.entries.len() > MAX_PRINCIPALS || self.bytes > MAX_BYTES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.read_at);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.remove(&oldest);
            self.changes += 1;
        }
    }

    fn insert(&mut self, key: String, entry: Entry) {
        self.remove(&key);
        if !self.has(&entry.offer) {
            self.bytes += entry.offer.bytes().len();
        }
        self.entries.insert(key, entry);
    }

    /// Removes an entry. Returns whether there was one.
    fn remove(&mut self, key: &str) -> bool {
        let Some(Entry { offer, .. }) = self.entries.remove(key) else { return false };
        if !self.has(&offer) {
            self.bytes -= offer.bytes().len();
        }
        true
    }

    /// Whether a principal has this very offer.
    fn has(&self, offer: &Raw) -> bool {
        self.entries.values().any(|entry| address(&entry.offer) == address(offer))
    }
}

/// Where an offer is in memory. Equal ones are in one place.
fn address(offer: &Raw) -> usize {
    offer.bytes().as_ptr().addr()
}

impl Upstream {
    /// The login of `principal`, if each principal has a credential of its own. With secrets in headers they are a part of
    /// the account.
    pub(super) async fn login_of<'a>(&self, principal: Option<&'a Arc<str>>) -> Option<LoggedIn<'a>> {
        let principal = principal.filter(|_| self.config.is_per_principal())?;
        let logins = self.logins().filter(|logins| logins.is_per_principal());
        let mut login = match logins {
            Some(logins) => LoggedIn::of(&logins, principal)?,
            None => LoggedIn { principal, account: None },
        };
        if let Some(secrets) = &self.principal_secrets {
            let version = secrets.version_of(principal).await?;
            login.account = Some(format!("{} {version}", login.account.unwrap_or_default()));
        }
        Some(login)
    }

    /// Records what it offers to `principal`, which had the login `before` that was read. Another account that logged in
    /// meanwhile must not see it.
    pub(super) async fn learn_offer_to(
        &self,
        principal: Option<&Arc<str>>,
        before: Option<&LoggedIn<'_>>,
        offer: &Offer,
    ) {
        if let Some(login) = self.login_of(principal).await.filter(|login| Some(login) == before) {
            self.principal_offers.learn(&login, &self.config.name, offer);
        }
    }

    /// Returns what it offered to `principal` last, if that is still logged in.
    pub(super) async fn last_offer_to(&self, principal: Option<&Arc<str>>) -> Option<Raw> {
        self.principal_offers.of(&self.login_of(principal).await?)
    }

    /// Forgets what it offered to `principal`, and ends the connections that use its credential.
    pub fn login_changed(&self, principal: &Arc<str>) {
        self.principal_offers.forget(principal);
        self.pool.end_connections_of(principal);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use protocol::Version;
    use protocol::caching::Caching;
    use protocol::lifecycle::Peer;

    fn offer(tool: &str, bytes: usize) -> Offer {
        let peer = Peer {
            version: Version::V2025_11_25,
            info: Raw::of(&json!({"name": "s", "version": "1"})),
            capabilities: Raw::of(&json!({"tools": {}})),
            instructions: None,
        };
        let description = "d".repeat(bytes);
        let tool = json!({"name": tool, "description": description, "inputSchema": {"type": "object"}});
        let caching = Caching { ttl_ms: 5, is_public: true };
        Offer::of_own(peer, vec![Raw::of(&tool)], Vec::new(), caching)
    }

    fn login<'a>(principal: &'a str, account: &str) -> LoggedIn<'a> {
        LoggedIn { principal, account: Some(account.to_owned()) }
    }

    fn has(offers: &PrincipalOffers, login: &LoggedIn<'_>, tool: &str) -> bool {
        offers.of(login).is_some_and(|offer| offer.as_str().contains(tool))
    }

    #[test]
    fn offer_is_found_by_its_principal_with_the_same_account_only() {
        let offers = PrincipalOffers::default();
        offers.learn(&login("key:a", "lovelace"), &"s".into(), &offer("mine", 0));
        let stored = offers.to_stored();
        assert!(
            !stored.as_str().contains("key:a") && !stored.as_str().contains("lovelace"),
            "{}",
            stored.as_str()
        );
        let read = PrincipalOffers::from_stored(&stored, &"s".into()).expect("stored offers");
        for offers in [&offers, &read] {
            assert!(has(offers, &login("key:a", "lovelace"), "mine"));
            assert!(!has(offers, &login("key:b", "lovelace"), "mine"), "another principal");
            assert!(!has(offers, &login("key:a", "grace"), "mine"), "another account");
        }
        read.forget("key:a");
        assert!(read.is_empty() && read.changes() > 0);
    }

    #[test]
    fn equal_offers_are_stored_once() {
        let offers = PrincipalOffers::default();
        for number in 0..30 {
            offers.learn(&login(&number.to_string(), "ada"), &"s".into(), &offer("same", 20_000));
        }
        let stored = offers.to_stored();
        assert!(stored.bytes().len() < 30_000, "{}", stored.bytes().len());
        let read = PrincipalOffers::from_stored(&stored, &"s".into()).expect("stored offers");
        assert!((0..30).all(|number| has(&read, &login(&number.to_string(), "ada"), "same")));
    }

    #[test]
    fn offers_are_bounded_in_number_and_bytes_and_the_oldest_give_way() {
        for (count, bytes, least) in [(1_100_usize, 0, MAX_PRINCIPALS), (48, 100_000, MAX_BYTES / 110_000)] {
            let offers = PrincipalOffers::default();
            for number in 0..count {
                let name = number.to_string();
                offers.learn(&login(&name, "ada"), &"s".into(), &offer(&format!("t{name}"), bytes));
            }
            let known = |number: &usize| offers.of(&login(&number.to_string(), "ada")).is_some();
            let stored: Vec<usize> = (0..count).filter(known).collect();
            assert!((least..=MAX_PRINCIPALS).contains(&stored.len()), "{bytes}: {}", stored.len());
            assert_eq!(stored.last(), Some(&(count - 1)));
            assert_eq!(stored[0], count - stored.len(), "the oldest are gone");
            assert!(offers.to_stored().bytes().len() < MAX_BYTES + 256 * MAX_PRINCIPALS);
        }
    }

    #[test]
    fn other_json_is_no_offer() {
        for text in [
            "{}",
            r#"{"salt":"","offers":[],"entries":[{"principal":"a","account":"","readAt":0,"offer":0}]}"#,
        ] {
            let stored = Raw::parse(&text.to_owned().into()).expect("JSON");
            assert!(PrincipalOffers::from_stored(&stored, &"s".into()).is_none(), "{text}");
        }
    }
}
