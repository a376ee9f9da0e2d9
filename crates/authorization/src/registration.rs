//! Clients that register themselves.
//!
//! Anybody may register, so a registration costs little and lasts an hour if no owner agrees to it. Invariants: there is
//! a limit of registrations, and of how many come in a minute. If there is no room, registrations that nobody agreed to
//! make room for new ones, the oldest first, and then those without a grant. A client with a grant is never removed for
//! another. The token that manages a registration is stored as a hash.
//!
//! Source: RFC 7591, section 3; RFC 7592, sections 2.1 and 2.3 (read and delete; updates are optional there).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use json::Raw;
use runtime::rate::Rate;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use crate::client::{Client, ClientAuthentication, ClientMetadata, ClientSource};
use crate::error::{Code, Error};
use crate::grant::LONGEST_LIFETIME;
use crate::records::{Records, Stored, random};
use crate::store::StoreError;

/// Limit of registrations.
const MAX_CLIENTS: usize = 1_000;
/// Registrations that are removed at once if there is no room.
const EVICTED: usize = 50;
/// Registrations that may come at once, and the time in which one more may come. This is many times the rate of one address
/// (`downstream`), so that a few do not starve the others. At this rate one that nobody agreed to survives for about four
/// minutes, until as many others as there may be have come after it.
const BURST: (u32, Duration) = (100, Duration::from_millis(250));
/// Limit of the bytes of the metadata of a client, which fit into a record once they are sealed.
const MAX_METADATA: usize = 40 << 10;
/// Seconds for which a registration lasts if nobody agrees to it.
const UNUSED_LIFETIME: u64 = 3_600;
/// Seconds for which it lasts after somebody agreed: longer than any grant.
const USED_LIFETIME: u64 = LONGEST_LIFETIME + 24 * 3_600;
/// Begins every id.
const ID_PREFIX: &str = "swyclient-";

/// A registration as it is stored.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Registration {
    metadata: ClientMetadata,
    /// The hash of the token that manages it.
    token_hash: [u8; 32],
    made: u64,
    /// When an owner last agreed to it.
    agreed: Option<u64>,
}

/// The clients that registered themselves.
pub(crate) struct Registrations {
    records: Records<Registration>,
    rate: Rate,
}

impl Registration {
    fn is_over(&self, now: u64) -> bool {
        match self.agreed {
            Some(agreed) => now.saturating_sub(agreed) >= USED_LIFETIME,
            None => now.saturating_sub(self.made) >= UNUSED_LIFETIME,
        }
    }
}

impl Registrations {
    pub(crate) fn new(records: Records<Registration>) -> Self {
        Self { records, rate: Rate::new(BURST.0, BURST.1) }
    }

    /// Registers the client that `json` describes. `with_grants` gives the clients that have a grant. Returns the answer,
    /// whose secret part is the token that manages the registration.
    pub(crate) async fn add(
        &self,
        json: &Raw,
        with_grants: impl AsyncFnOnce() -> Result<HashSet<String>, StoreError>,
        now: u64,
    ) -> Result<(String, Value, SecretString), Error> {
        let metadata = ClientMetadata::of_registration(json)?;
        if !serde_json::to_vec(&metadata).is_ok_and(|json| json.len() <= MAX_METADATA) {
            let reason = "the metadata is longer than 40 KiB; `jwks_uri` takes less room than `jwks`";
            return Err(Error::new(Code::InvalidClientMetadata, reason));
        }
        self.rate.take().map_err(|pause| {
            Error::later("too many clients register at once; try again", pause.as_secs().max(1))
        })?;
        self.make_room(with_grants, now).await?;
        let id = format!("{ID_PREFIX}{}", random());
        let token = SecretString::from(random());
        let answer = answer(&id, &metadata, now);
        let registration = Registration { metadata, token_hash: hash(&token), made: now, agreed: None };
        self.records.insert(&id, &registration).await?;
        Ok((id, answer, token))
    }

    /// Returns the client `id`.
    pub(crate) async fn find(&self, id: &str, now: u64) -> Result<Option<Arc<Client>>, StoreError> {
        let Some(found) = self.valid(id, now).await? else { return Ok(None) };
        let (id, source) = (id.to_owned(), ClientSource::Registered);
        Ok(Some(Arc::new(Client { id, source, metadata: found.metadata })))
    }

    /// Records that an owner agreed to the client `id`.
    pub(crate) async fn agreed(&self, id: &str, now: u64) -> Result<bool, StoreError> {
        while let Some(stored) = if is_id(id) { self.records.get(id).await? } else { None } {
            // Another process may have recorded a later consent meanwhile.
            let registration =
                Registration { agreed: stored.value.agreed.max(Some(now)), ..stored.value.clone() };
            if self.records.replace(id, &stored, &registration).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the registration `id` for the holder of its token.
    pub(crate) async fn read(&self, id: &str, token: &SecretString, now: u64) -> Result<Value, Error> {
        let found = self.valid(id, now).await?;
        let found = found.filter(|found| bool::from(found.token_hash.ct_eq(&hash(token))));
        let refused =
            || Error::new(Code::InvalidToken, "the registration is not known, or the token is not its own");
        found.map(|found| answer(id, &found.metadata, found.made)).ok_or_else(refused)
    }

    /// Returns the registrations with the times at which they were made.
    pub(crate) async fn list(&self, now: u64) -> Result<Vec<(Client, u64)>, StoreError> {
        let all = self.records.list("").await?.into_iter();
        let valid = all.filter(|(_, found)| !found.is_over(now)).map(|(id, found)| {
            (Client { id, source: ClientSource::Registered, metadata: found.metadata }, found.made)
        });
        Ok(valid.collect())
    }

    /// Returns how many are stored, also those whose time is over.
    pub(crate) async fn count(&self) -> Result<usize, StoreError> {
        Ok(self.records.ids("").await?.len())
    }

    /// Removes the registration `id`. Returns false if it was there and nobody had agreed to it, so that it has no grants.
    pub(crate) async fn remove(&self, id: &str) -> Result<bool, StoreError> {
        if !is_id(id) {
            return Ok(true);
        }
        while let Some(stored) = self.records.get(id).await? {
            // Somebody may agree meanwhile.
            if self.records.remove_unchanged(id, &stored).await? {
                return Ok(stored.value.agreed.is_some());
            }
        }
        self.records.remove(id).await?;
        Ok(true)
    }

    /// Removes the registrations whose time is over, and returns how many. All are tried; the error is the last one.
    pub(crate) async fn sweep(&self, now: u64) -> Result<usize, StoreError> {
        let remove_old = async |id: String, found: Stored<Registration>| {
            Ok(found.value.is_over(now) && self.records.remove_unchanged(&id, &found).await?)
        };
        self.records.change_each("", remove_old).await
    }

    async fn valid(&self, id: &str, now: u64) -> Result<Option<Registration>, StoreError> {
        if !is_id(id) {
            return Ok(None);
        }
        let stored = self.records.get(id).await?;
        Ok(stored.map(|stored| stored.value).filter(|registration| !registration.is_over(now)))
    }

    /// Removes registrations if there is no room. The search reads all of them, so it makes room for many.
    async fn make_room(
        &self,
        with_grants: impl AsyncFnOnce() -> Result<HashSet<String>, StoreError>,
        now: u64,
    ) -> Result<(), Error> {
        if self.records.ids("").await?.len() < MAX_CLIENTS {
            return Ok(());
        }
        let mut all = self.records.list("").await?;
        all.sort_by_key(|(_, found)| {
            (!found.is_over(now), found.agreed.is_some(), found.agreed.unwrap_or(found.made))
        });
        let is_free = |(_, found): &&(String, Registration)| found.is_over(now) || found.agreed.is_none();
        let mut removed: Vec<&str> = all.iter().filter(is_free).take(EVICTED).map(|(id, _)| &**id).collect();
        if removed.is_empty() {
            let has_grant = with_grants().await?;
            let is_unused = |id: &&str| !has_grant.contains(*id);
            removed = all.iter().map(|(id, _)| &**id).filter(is_unused).take(EVICTED).collect();
        }
        if removed.is_empty() {
            let reason = "there is no room for another client; an operator can remove grants";
            return Err(Error::later(reason, 3_600));
        }
        for id in removed {
            self.records.remove(id).await?;
        }
        Ok(())
    }
}

/// Whether `id` is one that a registration may have.
pub(crate) fn is_id(id: &str) -> bool {
    let random = id.strip_prefix(ID_PREFIX);
    random.is_some_and(|random| random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The answer to a registration (RFC 7591, section 3.2.1).
fn answer(id: &str, metadata: &ClientMetadata, made: u64) -> Value {
    let mut answer = json!({
        "client_id": id,
        "client_id_issued_at": made,
        "redirect_uris": metadata.redirect_uris,
        "grant_types": metadata.grant_types(),
        "response_types": ["code"],
        "token_endpoint_auth_method": metadata.authentication.method(),
    });
    if let Some(name) = &metadata.name {
        answer["client_name"] = name.as_str().into();
    }
    match &metadata.authentication {
        ClientAuthentication::None => {}
        ClientAuthentication::Keys(set) => answer["jwks"] = json!(set),
        ClientAuthentication::KeysAt(url) => answer["jwks_uri"] = url.as_str().into(),
    }
    answer
}

fn hash(token: &SecretString) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.expose_secret().as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::fixture::MemoryStore;
    use crate::keys::Keys;
    use crate::store::{Store, Table};

    fn registrations() -> Registrations {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let key = Keys::of_secret(b"one secret of more than thirty-two bytes");
        Registrations::new(Records::new(&store, &key, Table::Clients))
    }

    fn request() -> Raw {
        let text = r#"{"redirect_uris": ["https://app.example/cb"], "client_name": "App", "scope": "x"}"#;
        Raw::parse(&Bytes::from_static(text.as_bytes())).expect("JSON")
    }

    async fn none() -> Result<HashSet<String>, StoreError> {
        Ok(HashSet::new())
    }

    /// Two processes record consents at once, and the one with the earlier time may write last.
    #[tokio::test]
    async fn year_of_a_registration_counts_from_its_last_consent_whichever_is_written_last() {
        let registrations = registrations();
        let (id, ..) = registrations.add(&request(), none, 1_000).await.expect("a client");
        let consents = [5_000, 4_000, 2_000].map(|now| registrations.agreed(&id, now));
        for recorded in futures_util::future::join_all(consents).await {
            assert!(recorded.expect("a store"));
        }
        assert!(registrations.agreed(&id, 3_000).await.expect("a store"));
        let is_there = async |now| registrations.find(&id, now).await.expect("a store").is_some();
        assert!(is_there(5_000 + USED_LIFETIME - 1).await);
        assert!(!is_there(5_000 + USED_LIFETIME).await);
    }

    #[tokio::test]
    async fn registration_is_managed_with_its_own_token_only() {
        let all = registrations();
        let (id, answer, token) = all.add(&request(), none, 0).await.expect("a client");
        assert_eq!(answer["token_endpoint_auth_method"], "none");
        assert!(answer.get("client_secret").is_none());
        assert_eq!(all.read(&id, &token, 1).await, Ok(answer));
        let (other, _, other_token) = all.add(&request(), none, 0).await.expect("a client");
        for (id, token) in [(&id, &other_token), (&other, &token), (&"x".to_owned(), &token)] {
            assert_eq!(all.read(id, token, 1).await.expect_err("foreign").code, Code::InvalidToken);
        }
        all.remove(&id).await.expect("removed");
        assert!(all.find(&id, 1).await.expect("a read").is_none());
    }

    #[tokio::test]
    async fn metadata_that_fits_into_no_record_is_refused() {
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k".repeat(50 << 10), "x": "A".repeat(43) });
        let request = json!({
            "redirect_uris": ["https://app.example/cb"], "token_endpoint_auth_method": "private_key_jwt",
            "jwks": { "keys": [key] },
        });
        let request = Raw::parse(&Bytes::from(request.to_string())).expect("JSON");
        let refused = registrations().add(&request, none, 0).await.expect_err("too long");
        assert_eq!(refused.code, Code::InvalidClientMetadata);
    }

    #[tokio::test]
    async fn registration_that_nobody_agreed_to_ends_after_an_hour() {
        let all = registrations();
        let (unused, ..) = all.add(&request(), none, 0).await.expect("a client");
        let (used, ..) = all.add(&request(), none, 0).await.expect("a client");
        assert!(all.agreed(&used, 10).await.expect("a write"));
        let is_known = async |id: &str, now| all.find(id, now).await.expect("a read").is_some();
        assert!(is_known(&unused, UNUSED_LIFETIME - 1).await && !is_known(&unused, UNUSED_LIFETIME).await);
        assert!(is_known(&used, 9 + USED_LIFETIME).await && !is_known(&used, 10 + USED_LIFETIME).await);
        assert!(!all.agreed("swyclient-0", 10).await.expect("a read"));
    }

    #[tokio::test(start_paused = true)]
    async fn client_without_a_grant_makes_room_and_one_with_a_grant_never_does() {
        let (all, mut used) = (registrations(), HashSet::new());
        for at in 0..MAX_CLIENTS {
            tokio::time::advance(BURST.1).await;
            let (id, ..) = all.add(&request(), none, 0).await.expect("a client");
            all.agreed(&id, 0).await.expect("a write");
            // The others lost their grants.
            if at % 20 != 0 {
                used.insert(id);
            }
        }
        let mut added = 0;
        while let Ok((id, ..)) = all.add(&request(), async || Ok(used.clone()), 1).await {
            tokio::time::advance(BURST.1).await;
            all.agreed(&id, 1).await.expect("a write");
            used.insert(id);
            added += 1;
        }
        assert_eq!(added, MAX_CLIENTS / 20);
        for id in &used {
            assert!(all.find(id, 1).await.expect("a read").is_some(), "{id}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ten_thousand_registrations_displace_no_client_that_is_in_use() {
        let all = registrations();
        let (used, ..) = all.add(&request(), none, 0).await.expect("a client");
        all.agreed(&used, 0).await.expect("a write");
        let grants = async || Ok(HashSet::from([used.clone()]));
        let mut refused = 0;
        for at in 0..10_000 {
            if let Err(error) = all.add(&request(), grants, 1 + at / 100).await {
                assert_eq!(error.code, Code::TemporarilyUnavailable);
                assert!(error.retry_after.is_some());
                refused += 1;
                tokio::time::advance(BURST.1).await;
            }
        }
        assert!(refused > 4_000, "{refused} were refused for their rate");
        let count = all.records.ids("").await.expect("ids").len();
        assert!((MAX_CLIENTS - EVICTED..=MAX_CLIENTS).contains(&count), "{count}");
        assert!(all.find(&used, 1).await.expect("a read").is_some());
    }
}
