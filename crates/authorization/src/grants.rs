//! The grants of all owners.
//!
//! Invariants: the id of a grant begins with a tag of its owner, so the grants of one owner are found without reading
//! those of others. An owner has a limit of grants, and its least recently used one makes room. All owners together have
//! a limit too, and then nobody gets another one.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use auth::Role;
use lru::LruCache;
use runtime::rate::Rate;

use crate::access::{Access, Host};
use crate::client::ClientSource;
use crate::error::Error;
use crate::grant::Grant;
use crate::keys::Keys;
use crate::moment;
use crate::records::{Records, Stored, random};
use crate::store::{Store, StoreError, Table};

/// Limit of the grants of one owner.
const MAX_OF_ONE: usize = 32;
/// Limit of all grants.
const MAX_GRANTS: usize = 10_000;
/// Limit of people whose roles are known.
const MAX_PEOPLE: NonZeroUsize = NonZeroUsize::new(1_024).expect("not zero");
/// The time between two searches for grants that have ended, each of which reads all of them.
const SWEEP_PAUSE: Duration = Duration::from_mins(1);
/// Bytes of the tag of an owner.
const TAG_BYTES: usize = 10;

/// A grant, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantSummary {
    /// Its id.
    pub id: String,
    /// The id of the principal who agreed.
    pub owner: String,
    /// An email address or account name, of an owner who signed in at the login service.
    pub owner_name: Option<String>,
    /// The id of the client.
    pub client: String,
    /// The name that the client chose for itself.
    pub client_name: Option<String>,
    /// Where the metadata of the client came from.
    pub source: ClientSource,
    /// Where the code was sent.
    pub redirect_uri: String,
    /// The audience of its tokens.
    pub resource: String,
    /// The most that its tokens allow.
    pub access: Access,
    /// When the owner agreed.
    pub made: SystemTime,
    /// When the client last got a token.
    pub used: SystemTime,
}

/// Which grants are selected: those that have each of these.
#[derive(Debug, Clone, Default)]
pub struct GrantFilter {
    /// The id of the principal who agreed.
    pub owner: Option<String>,
    /// The id of the client.
    pub client: Option<String>,
    /// The view that it is bound to. Grants without a view are selected too.
    pub view: Option<String>,
}

impl GrantFilter {
    pub(crate) fn selects(&self, grant: &Grant) -> bool {
        let is = |expected: &Option<String>, found: Option<&str>| {
            expected.as_deref().is_none_or(|expected| found == Some(expected))
        };
        is(&self.owner, Some(&grant.owner))
            && is(&self.client, Some(&grant.client))
            && (grant.access.view.is_none() || is(&self.view, grant.access.view.as_deref()))
    }
}

/// The grants in the store.
pub(crate) struct Grants {
    records: Records<Grant>,
    host: Arc<dyn Host>,
    sweeps: Rate,
    /// The roles of people of the login service whose tokens are in use, by the ids of their principals.
    people: Mutex<LruCache<String, Role>>,
}

impl Grants {
    pub(crate) fn new(store: &Arc<dyn Store>, keys: &Arc<Keys>, host: &Arc<dyn Host>) -> Self {
        let records = Records::new(store, keys, Table::Grants);
        let (host, sweeps) = (Arc::clone(host), Rate::new(1, SWEEP_PAUSE));
        Self { records, host, sweeps, people: Mutex::new(LruCache::new(MAX_PEOPLE)) }
    }

    /// Adds a grant, and returns its id.
    pub(crate) async fn add(&self, grant: &Grant, now: u64) -> Result<String, Error> {
        let prefix = self.prefix(Some(&grant.owner)).await?;
        self.make_room_for_owner(&prefix, now).await?;
        self.make_room(now).await?;
        let id = format!("{prefix}{}", random());
        self.records.insert(&id, grant).await?;
        Ok(id)
    }

    /// Returns the grant `id`.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<Stored<Grant>>, StoreError> {
        if is_id(id) { self.records.get(id).await } else { Ok(None) }
    }

    /// Replaces `before`. Returns false if it was changed or ended meanwhile.
    pub(crate) async fn advance(
        &self,
        id: &str,
        before: &Stored<Grant>,
        next: &Grant,
    ) -> Result<bool, StoreError> {
        self.records.replace(id, before, next).await
    }

    /// Whether the grant `id` exists.
    pub(crate) async fn exists(&self, id: &str, now: u64) -> Result<bool, StoreError> {
        let Some(Stored { value: grant, .. }) = self.find(id).await? else { return Ok(false) };
        let is_valid = !grant.is_over(now) && self.has_same_credential(&grant);
        if let Some(person) = grant.person.filter(|_| is_valid) {
            let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
            people.put(grant.owner, person.rights.role);
        }
        Ok(is_valid)
    }

    /// The role of `owner`, the holder of a key or a person whose tokens are in use.
    pub(crate) fn role(&self, owner: &str) -> Option<Role> {
        let of_key = self.host.rights(owner).map(|rights| rights.role);
        let person = || self.people.lock().unwrap_or_else(PoisonError::into_inner).get(owner).copied();
        of_key.or_else(person)
    }

    /// The present rights of the owner of `grant`.
    pub(crate) fn rights(&self, grant: &Grant) -> Option<Access> {
        let rights = match &grant.person {
            Some(person) => Some(person.rights.clone()),
            None => self.host.rights(&grant.owner),
        };
        rights.filter(|_| self.has_same_credential(grant))
    }

    /// Whether the owner of `grant` still has the credential with which it agreed.
    pub(crate) fn has_same_credential(&self, grant: &Grant) -> bool {
        grant.credential == self.host.credential(&grant.owner)
    }

    /// Ends the grant `id`. None of its tokens is accepted from now on. Returns whether this call has removed it.
    pub(crate) async fn end(&self, id: &str) -> Result<bool, StoreError> {
        if !is_id(id) {
            return Ok(false);
        }
        let is_removed = self.records.remove(id).await?;
        // After the removal, so that a lookup in between does not find it.
        self.host.grant_ended(id);
        Ok(is_removed)
    }

    /// Ends the grants of `owner`, or of all owners, that `is_chosen` selects, and returns how many. All are tried; the error
    /// is the last one.
    pub(crate) async fn end_all(
        &self,
        owner: Option<&str>,
        is_chosen: impl Fn(&Grant) -> bool,
    ) -> Result<usize, StoreError> {
        let prefix = self.prefix(owner).await?;
        let end_chosen = async |id: String, found: Stored<Grant>| {
            let is_chosen = is_chosen(&found.value);
            if is_chosen {
                self.end(&id).await?;
            }
            Ok(is_chosen)
        };
        self.records.change_each(&prefix, end_chosen).await
    }

    /// Removes the grants whose time is over, and returns how many. One that cannot be opened stays: its key may come back.
    pub(crate) async fn sweep(&self, now: u64) -> Result<usize, StoreError> {
        self.end_all(None, |grant| grant.is_over(now)).await
    }

    /// Returns the grants of `owner`, or of all owners, that have not ended.
    pub(crate) async fn list(
        &self,
        owner: Option<&str>,
        now: u64,
    ) -> Result<Vec<(String, Grant)>, StoreError> {
        let prefix = self.prefix(owner).await?;
        let mut all = self.records.list(&prefix).await?;
        all.retain(|(_, grant)| !grant.is_over(now) && owner.is_none_or(|owner| grant.owner == owner));
        Ok(all)
    }

    /// Returns the first `limit` grants after the id `after` that `filter` selects, in the order of their ids, and whether
    /// there are more.
    pub(crate) async fn page(
        &self,
        filter: &GrantFilter,
        after: &str,
        limit: usize,
        now: u64,
    ) -> Result<(Vec<(String, Grant)>, bool), StoreError> {
        let prefix = self.prefix(filter.owner.as_deref()).await?;
        self.records.page(&prefix, after, limit, |grant| !grant.is_over(now) && filter.selects(grant)).await
    }

    /// Returns the ids of those that are stored.
    pub(crate) async fn ids(&self) -> Result<Vec<String>, StoreError> {
        self.records.ids("").await
    }

    /// Returns a number that is another one after a removal, by any process.
    pub(crate) async fn removed(&self) -> Result<u64, StoreError> {
        self.records.removed_grants().await
    }

    /// Returns how many are stored, also those whose time is over.
    pub(crate) async fn count(&self) -> Result<usize, StoreError> {
        Ok(self.records.ids("").await?.len())
    }

    /// Returns the clients that have a grant.
    pub(crate) async fn clients(&self, now: u64) -> Result<HashSet<String>, StoreError> {
        Ok(self.list(None, now).await?.into_iter().map(|(_, grant)| grant.client).collect())
    }

    async fn make_room_for_owner(&self, prefix: &str, now: u64) -> Result<(), StoreError> {
        let count = self.records.ids(prefix).await?.len();
        if count < MAX_OF_ONE {
            return Ok(());
        }
        let mut own = self.records.list(prefix).await?;
        // A person can repeat a form. The codes that nobody redeems displace no login.
        own.sort_by_key(|(_, grant)| (!grant.is_over(now), grant.step().is_some(), grant.used()));
        let too_many = count + 1 - MAX_OF_ONE;
        let is_old = |(at, (_, grant)): &(usize, &(String, Grant))| *at < too_many || grant.is_over(now);
        for (_, (id, _)) in own.iter().enumerate().filter(is_old) {
            self.end(id).await?;
        }
        Ok(())
    }

    async fn make_room(&self, now: u64) -> Result<(), Error> {
        if self.records.ids("").await?.len() < MAX_GRANTS {
            return Ok(());
        }
        let full =
            || Error::later("there is no room for another login; an operator can remove grants", 3_600);
        self.sweeps.take().map_err(|_| full())?;
        if self.sweep(now).await? > 0 { Ok(()) } else { Err(full()) }
    }

    /// The beginning of the ids of the grants of `owner`, which does not tell who it is; empty without an owner.
    async fn prefix(&self, owner: Option<&str>) -> Result<String, StoreError> {
        let Some(owner) = owner else { return Ok(String::new()) };
        let tag = self.records.key().await?.id(format!("grants of {owner}").as_bytes());
        Ok(format!("{}-", hex::encode(&tag.as_bytes()[..TAG_BYTES])))
    }
}

impl GrantSummary {
    pub(crate) fn of(id: String, grant: Grant) -> Self {
        Self {
            id,
            made: moment(grant.made),
            used: moment(grant.used()),
            owner: grant.owner,
            owner_name: grant.person.map(|person| person.name),
            client: grant.client,
            client_name: grant.client_name,
            source: grant.source,
            redirect_uri: grant.redirect_uri,
            resource: grant.resource,
            access: grant.access,
        }
    }
}

/// Whether `id` can be the id of a grant.
fn is_id(id: &str) -> bool {
    let is_part =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    id.split_once('-').is_some_and(|(tag, random)| is_part(tag, 2 * TAG_BYTES) && is_part(random, 32))
}
