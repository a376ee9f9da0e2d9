//! Grants and clients as people see them, and that nothing is left of those that they end.

use std::collections::BTreeSet;
use std::sync::Arc;

use auth::Role;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runtime::telemetry::RequestId;

use super::*;
use crate::client::{ClientAuthentication, ClientMetadata};
use crate::fixture::{MemoryStore, Site, VERIFIER, form, open, query, redirected};
use crate::redirect_uri::RedirectUri;
use crate::store::{Store, Table};

const CALLBACK: &str = "https://claude.ai/api/mcp/auth_callback";

fn of_owner(owner: &str) -> GrantFilter {
    GrantFilter { owner: Some(owner.to_owned()), ..GrantFilter::default() }
}

fn configured() -> Client {
    let metadata = ClientMetadata {
        name: Some("Ours".to_owned()),
        redirect_uris: vec![RedirectUri::parse(CALLBACK).expect("a URI")],
        authentication: ClientAuthentication::None,
        refreshes: true,
    };
    Client { id: "ours".to_owned(), source: ClientSource::Configured, metadata }
}

#[tokio::test]
async fn pages_have_each_grant_once_and_no_other_than_selected() {
    let site = Site::new(Vec::new()).await;
    let clients = [site.register(CALLBACK).await, site.register(CALLBACK).await];
    for name in ["key:ann", "key:bob", "key:cid"] {
        let person = site.person(name, Role::Caller);
        for client in &clients {
            site.log_in(&person, client, CALLBACK).await;
        }
    }
    let of_client = GrantFilter { client: Some(clients[1].clone()), ..GrantFilter::default() };
    let of_view = GrantFilter { view: Some("help".to_owned()), ..of_owner("key:ann") };
    for (filter, count) in
        [(GrantFilter::default(), 6), (of_owner("key:bob"), 2), (of_client, 3), (of_view, 2)]
    {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = site.server.grant_page(&filter, &after, 1, site.now).await.expect("a page");
            seen.extend(page.grants);
            match seen.last().filter(|_| page.has_more) {
                Some(last) => after.clone_from(&last.id),
                None => break,
            }
        }
        assert_eq!(seen.len(), count, "{filter:?}");
        assert_eq!(seen.iter().map(|grant| &grant.id).collect::<BTreeSet<_>>().len(), count);
        assert!(filter.owner.is_none_or(|owner| seen.iter().all(|grant| grant.owner == owner)));
    }
}

#[tokio::test]
async fn clients_are_listed_with_their_people_until_they_are_removed() {
    let site = Site::new(vec![configured()]).await;
    let (used, unused) = (site.register(CALLBACK).await, site.register(CALLBACK).await);
    for name in ["key:ann", "key:bob"] {
        let person = site.person(name, Role::Caller);
        for client in [&used, &used, &"ours".to_owned()] {
            site.log_in(&person, client, CALLBACK).await;
        }
    }
    let listed = async || site.server.clients(site.now).await.expect("clients");
    let of = |all: &[ClientSummary], id: &str| {
        all.iter().find(|client| client.id == id).map(|client| (client.grants, client.owners))
    };
    let all = listed().await;
    assert_eq!([&used, &unused, "ours"].map(|id| of(&all, id)), [Some((4, 2)), Some((0, 0)), Some((2, 2))]);
    assert!(all.iter().all(|client| client.used.is_some() == (client.grants > 0)));
    for (id, ended) in [(&*used, Some(4)), (&used, None), ("ours", Some(2)), ("ours", Some(0)), ("x", None)] {
        assert_eq!(site.server.remove_client(id, site.now).await.expect("a write"), ended, "{id}");
    }
    let all = listed().await;
    assert_eq!(
        [&used, &unused, "ours"].map(|id| of(&all, id)),
        [None, Some((0, 0)), Some((0, 0))],
        "a client of the file stays"
    );
    assert_eq!(site.server.end_grants(&of_owner("key:ann"), site.now).await.expect("a read"), 0);
}

#[tokio::test]
async fn record_that_cannot_be_read_keeps_no_other_from_its_end() {
    let site = Site::new(Vec::new()).await;
    let (unused, client) = (site.register(CALLBACK).await, site.register(CALLBACK).await);
    for name in ["key:ann", "key:bob", "key:cid"] {
        site.log_in(&site.person(name, Role::Caller), &client, CALLBACK).await;
    }
    let grants = site.server.grants(None, site.now).await.expect("grants");
    site.store.break_record(&grants[0].id);
    assert_eq!(
        site.server.remove_client(&unused, site.now).await.expect("no grant is read"),
        Some(0),
        "nobody agreed to it"
    );
    *site.gateway.credential.lock().expect("a lock") = Some("another".to_owned());
    site.server.end_without_credential(Some(&grants[1].owner), site.now).await.expect("one owner");
    assert_eq!(site.server.stored().await.expect("a store").0, 2);
    site.server.end_without_credential(None, site.now).await.expect_err("one cannot be read");
    assert_eq!(site.server.stored().await.expect("a store").0, 1, "the others have ended");
    site.server.end_grants(&GrantFilter::default(), site.now).await.expect_err("one cannot be read");
    site.server.remove_client(&client, site.now).await.expect_err("one cannot be read");
}

#[tokio::test]
async fn sweep_removes_what_is_over_and_nothing_else() {
    let mut site = Site::new(Vec::new()).await;
    let (person, client) = (site.person("key:ann", Role::Caller), site.register(CALLBACK).await);
    site.register(CALLBACK).await;
    site.log_in(&person, &client, CALLBACK).await;
    let place = format!("{}-{}", "0".repeat(20), "0".repeat(32));
    assert!(site.store.swap(Table::Grants, &place, None, Some(b"of another key")).await.expect("a write"));
    for (wait, removed, stored) in [(59, 0, (2, 2)), (1, 1, (1, 2)), (3_540, 1, (1, 1)), (3_600, 0, (1, 1))] {
        site.wait(wait);
        assert_eq!(site.server.sweep(site.now).await.expect("a store"), removed, "{wait}");
        assert_eq!(site.server.stored().await.expect("a store"), stored, "{wait}");
    }
}

/// A store in which an operator removes every client as soon as a grant is written.
struct Meanwhile(Arc<MemoryStore>);

impl Store for Meanwhile {
    fn get<'a>(&'a self, table: Table, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        self.0.get(table, id)
    }

    fn get_all<'a>(
        &'a self,
        table: Table,
        ids: &'a [String],
    ) -> BoxFuture<'a, Vec<Result<Option<Vec<u8>>, StoreError>>> {
        self.0.get_all(table, ids)
    }

    fn swap<'a>(
        &'a self,
        table: Table,
        id: &'a str,
        before: Option<&'a [u8]>,
        after: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move {
            if table == Table::Grants && before.is_none() {
                for client in self.0.ids(Table::Clients, "").await? {
                    let record = self.0.get(Table::Clients, &client).await?;
                    self.0.swap(Table::Clients, &client, record.as_deref(), None).await?;
                }
            }
            self.0.swap(table, id, before, after).await
        }
        .boxed()
    }

    fn ids<'a>(&'a self, table: Table, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.0.ids(table, prefix)
    }

    fn removed_grants(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.0.removed_grants()
    }
}

#[tokio::test]
async fn client_that_is_removed_while_a_person_agrees_gets_no_grant() {
    let site = Site::new(Vec::new()).await;
    let (person, client) = (site.person("key:ann", Role::Caller), site.register(CALLBACK).await);
    let store = Arc::new(Meanwhile(Arc::clone(&site.store)));
    let server = open(site.folder.path(), store, Arc::clone(&site.gateway), site.now).await;
    let consent = server.authorize(&person, &query(&client, CALLBACK, &[]), site.now).await;
    let refused = server.approve(&person, &consent.expect("a consent").request, site.now).await;
    assert_eq!(redirected(refused.expect_err("no client")).0, "invalid_client");
    assert!(server.grants(None, site.now).await.expect("grants").is_empty());
}

#[tokio::test]
async fn requests_are_counted_by_their_answers_and_failures_of_the_store_are_too() {
    let site = Site::new(Vec::new()).await;
    let (person, client) = (site.person("key:ann", Role::Caller), site.register(CALLBACK).await);
    let code = site.log_in(&person, &client, CALLBACK).await;
    let form = form(&[
        ("grant_type", "authorization_code"),
        ("client_id", &client),
        ("code", &code),
        ("code_verifier", VERIFIER),
    ]);
    site.server.token(form.as_bytes(), RequestId::new(), site.now).await.expect("tokens");
    site.server.token(b"grant_type=password", RequestId::new(), site.now).await.expect_err("no such grant");
    site.server.authorize(&person, "client_id=none", site.now).await.expect_err("no such client");
    assert_eq!(site.server.counts().store_failures(), 0);
    site.store.set_fails(true);
    site.server.token(form.as_bytes(), RequestId::new(), site.now).await.expect_err("no store");
    let counted: Vec<_> = site.server.counts().all().filter(|(_, _, count)| *count > 0).collect();
    let expected = [
        ("authorize", "shown", 1),
        ("authorize", "granted", 1),
        ("token", "issued", 1),
        ("register", "registered", 1),
        ("authorize", "invalid_client", 1),
        ("token", "unsupported_grant_type", 1),
        ("token", "temporarily_unavailable", 1),
    ];
    assert_eq!(counted, expected);
    assert_eq!(site.server.counts().store_failures(), 1);
}
