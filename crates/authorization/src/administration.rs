//! Grants and clients for people: who let which client in, and the end of it.
//!
//! Not here: who may see and end them (`admin`).

use std::collections::{BTreeMap, HashSet};
use std::time::SystemTime;

use crate::client::{Client, ClientSource};
use crate::grant::Grant;
use crate::grants::{GrantFilter, GrantSummary};
use crate::server::AuthorizationServer;
use crate::store::StoreError;
use crate::{moment, seconds};

/// Some grants, in the order of their ids. Those of one owner are beside each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantPage {
    /// The grants.
    pub grants: Vec<GrantSummary>,
    /// Whether there are more behind the last one.
    pub has_more: bool,
}

/// A client that is in the operator's file, registered itself, or has a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSummary {
    /// Its id.
    pub id: String,
    /// The name that it chose for itself, or that the operator gave it.
    pub name: Option<String>,
    /// Where its metadata comes from.
    pub source: ClientSource,
    /// When it registered itself.
    pub registered: Option<SystemTime>,
    /// The number of grants that it has.
    pub grants: usize,
    /// The number of people who agreed to them.
    pub owners: usize,
    /// When it last got a token.
    pub used: Option<SystemTime>,
}

impl AuthorizationServer {
    /// Returns the grants of `owner`, or of all owners.
    pub async fn grants(
        &self,
        owner: Option<&str>,
        now: SystemTime,
    ) -> Result<Vec<GrantSummary>, StoreError> {
        let all = self.grants.list(owner, seconds(now)).await?;
        Ok(all.into_iter().map(|(id, grant)| GrantSummary::of(id, grant)).collect())
    }

    /// Returns the first `limit` grants after the id `after` that `filter` selects.
    pub async fn grant_page(
        &self,
        filter: &GrantFilter,
        after: &str,
        limit: usize,
        now: SystemTime,
    ) -> Result<GrantPage, StoreError> {
        let (grants, has_more) = self.grants.page(filter, after, limit, seconds(now)).await?;
        let grants = grants.into_iter().map(|(id, grant)| GrantSummary::of(id, grant)).collect();
        Ok(GrantPage { grants, has_more })
    }

    /// Returns the grant `id`.
    pub async fn grant(&self, id: &str, now: SystemTime) -> Result<Option<GrantSummary>, StoreError> {
        let found = self.grants.find(id).await?.filter(|found| !found.value.is_over(seconds(now)));
        Ok(found.map(|found| GrantSummary::of(id.to_owned(), found.value)))
    }

    /// Ends the grant `id`.
    pub async fn end_grant(&self, id: &str) -> Result<(), StoreError> {
        self.grants.end(id).await.map(drop)
    }

    /// Ends the grants that `filter` selects, and returns how many these are. All are tried; the error is the last one.
    pub async fn end_grants(&self, filter: &GrantFilter, now: SystemTime) -> Result<usize, StoreError> {
        if let GrantFilter { owner: Some(owner), client: None, view: None } = filter {
            self.host.owner_ended(owner);
        }
        let now = seconds(now);
        let is_chosen = |grant: &Grant| !grant.is_over(now) && filter.selects(grant);
        self.grants.end_all(filter.owner.as_deref(), is_chosen).await
    }

    /// Ends the grants of `owner`, or of all owners, whose credential was revoked or replaced since the owner agreed. Returns
    /// how many ended.
    pub async fn end_without_credential(
        &self,
        owner: Option<&str>,
        now: SystemTime,
    ) -> Result<usize, StoreError> {
        let now = seconds(now);
        let is_chosen = |grant: &Grant| {
            let is_own = owner.is_none_or(|owner| grant.owner == owner);
            is_own && !grant.is_over(now) && !self.grants.has_same_credential(grant)
        };
        self.grants.end_all(owner, is_chosen).await
    }

    /// Removes the grants and registrations whose time is over, and returns how many. It reads all of them.
    pub async fn sweep(&self, now: SystemTime) -> Result<usize, StoreError> {
        let grants = self.grants.sweep(seconds(now)).await;
        let clients = self.clients.registrations.sweep(seconds(now)).await;
        Ok(grants? + clients?)
    }

    /// Removes the client `id` if it registered itself, and ends all grants to it. Returns how many these are; none if there
    /// is no such client. One of the operator's file, or with a document, stays known.
    pub async fn remove_client(&self, id: &str, now: SystemTime) -> Result<Option<usize>, StoreError> {
        let registrations = &self.clients.registrations;
        let is_known = registrations.find(id, seconds(now)).await?.is_some()
            || self.clients.configured().any(|client| client.id == id);
        // Anybody can register and remove clients, and the search below reads all grants.
        if !registrations.remove(id).await? {
            return Ok(is_known.then_some(0));
        }
        let of_client = GrantFilter { client: Some(id.to_owned()), ..GrantFilter::default() };
        let ended = self.end_grants(&of_client, now).await?;
        Ok((is_known || ended > 0).then_some(ended))
    }

    /// Returns all clients by their ids.
    pub async fn clients(&self, now: SystemTime) -> Result<Vec<ClientSummary>, StoreError> {
        let now = seconds(now);
        let mut all = BTreeMap::new();
        for client in self.clients.configured() {
            all.insert(client.id.clone(), ClientSummary::of(client, None));
        }
        for (client, made) in self.clients.registrations.list(now).await? {
            all.insert(client.id.clone(), ClientSummary::of(&client, Some(moment(made))));
        }
        let mut owners = HashSet::new();
        for (id, grant) in self.grants.list(None, now).await? {
            let grant = GrantSummary::of(id, grant);
            let client = all.entry(grant.client.clone()).or_insert_with(|| ClientSummary {
                id: grant.client.clone(),
                name: grant.client_name.clone(),
                source: grant.source,
                registered: None,
                grants: 0,
                owners: 0,
                used: None,
            });
            client.grants += 1;
            client.used = client.used.max(Some(grant.used));
            if owners.insert((grant.client, grant.owner)) {
                client.owners += 1;
            }
        }
        Ok(all.into_values().collect())
    }

    /// Whether the operator has vouched for the client `id` with metadata of `source`.
    pub fn is_trusted(&self, source: ClientSource, id: &str) -> bool {
        self.clients.is_trusted(source, id)
    }

    /// Returns how many grants and registrations are stored, also those whose time is over.
    pub async fn stored(&self) -> Result<(usize, usize), StoreError> {
        Ok((self.grants.count().await?, self.clients.registrations.count().await?))
    }
}

impl ClientSummary {
    fn of(client: &Client, registered: Option<SystemTime>) -> Self {
        Self {
            id: client.id.clone(),
            name: client.metadata.name.clone(),
            source: client.source,
            registered,
            grants: 0,
            owners: 0,
            used: None,
        }
    }
}

#[cfg(test)]
#[path = "administration_tests.rs"]
mod tests;
