//! Parameters of requests: the name in the path, the query, and search, filter and pages of the lists
//! (`?query=&server=&limit=&cursor=`).
//!
//! Invariants: without parameters a list is whole, as it always was. A cursor is a digest of the last name of its page,
//! so it is short, and the next page is right while items before it come and go. Words of a query are compared without case.
//! A server decides how long its list is, so a search lets other tasks run in between.
//!
//! Not here: the lists (`catalog`, `offers`), printing and charging them.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::IntoParams;

use super::entity_tag;
use super::problem::Problem;
use gateway::manager::Snapshot;
use gateway::manager::catalog::CatalogEntry;
use protocol::ErrorCode;
use runtime::worker::WorkBudget;

/// The parameters that there are.
const HINT: &str = "the parameters are `query`, `server`, `view`, `limit` and `cursor`, each at most once";

/// The longest query, in bytes.
const MAX_QUERY: usize = 256;
/// The most words of a query; each is looked for in every item.
const MAX_WORDS: usize = 8;
/// How much of a title or a description is searched, in bytes.
const MAX_SEARCHED: usize = 16 * 1024;
/// Items of a page without `limit`, where a list is not whole without it.
const PAGE: usize = 100;
/// The most items of a page.
const MAX_PAGE: usize = 1000;
/// The longest name of a server and the longest cursor, in bytes. With all parameters, a request fits into the limit of
/// a head even if every character is escaped.
const MAX_TEXT: usize = 256;

/// The only name in a path. One that is not UTF-8 is a problem.
pub(super) struct PathName(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let refused = |rejection: PathRejection| unreadable(rejection.body_text());
        let Path(name) = Path::from_request_parts(parts, state).await.map_err(refused)?;
        Ok(Self(name))
    }
}

/// The parameters of a query, or why they cannot be read.
pub(super) type Parameters<T> = Result<Query<T>, QueryRejection>;

/// Returns the parameters. `hint` names those that there are.
pub(super) fn parameters<T>(given: Parameters<T>, hint: &'static str) -> Result<T, Problem> {
    let Query(read) = given.map_err(|rejection| unreadable(rejection.body_text()).hinting(hint))?;
    Ok(read)
}

/// The refusal of a path or a query that cannot be read. `text` says why.
pub(super) fn unreadable(text: String) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, text)
}

/// The parameters of a list.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Words that must all occur in name, title or description, in any case. The best matches come first: an equal
    /// name, then the beginning of a name, a name, a title, and a description.
    #[param(nullable = false, max_length = 256, example = "create issue")]
    query: Option<String>,
    /// Only items of this server.
    #[param(nullable = false, max_length = 256, example = "issues")]
    server: Option<String>,
    /// Only what this view has. A credential that is bound to a view sees no other.
    #[param(nullable = false, max_length = 256, example = "support")]
    view: Option<String>,
    /// The most items of the answer. Without it, all of them.
    #[param(nullable = false, minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before, with the same other parameters.
    #[param(nullable = false, max_length = 256)]
    cursor: Option<String>,
}

/// The view of a request that has no other parameter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ViewQuery {
    /// Only what this view has. A credential that is bound to a view sees no other.
    #[param(nullable = false, max_length = 256, example = "support")]
    pub(super) view: Option<String>,
}

impl ViewQuery {
    /// Reads the parameter of a request.
    pub(super) fn read(query: Parameters<Self>) -> Result<Self, Problem> {
        parameters(query, "the only parameter is `view`, at most once")
    }
}

impl ListQuery {
    /// Reads the parameters of a request and checks their limits.
    pub(super) fn read(query: Parameters<Self>) -> Result<Self, Problem> {
        let read = parameters(query, HINT)?;
        let is_long = |text: &Option<String>, most| text.as_ref().is_some_and(|text| text.len() > most);
        if is_long(&read.query, MAX_QUERY) {
            return Err(wrong("`query` is longer than 256 bytes"));
        }
        if is_long(&read.server, MAX_TEXT) || is_long(&read.view, MAX_TEXT) || is_long(&read.cursor, MAX_TEXT)
        {
            return Err(wrong("a parameter is longer than 256 bytes"));
        }
        page_size(read.limit).map_err(wrong)?;
        Ok(read)
    }

    /// Whether the whole list is asked for.
    pub(super) fn is_whole(&self) -> bool {
        let Self { query, server, view: _, limit, cursor } = self;
        query.is_none() && server.is_none() && limit.is_none() && cursor.is_none()
    }

    /// The view that is asked for.
    pub(super) fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }

    /// Returns the items of the page, and the cursor of the next one if there is one. `entries` are of `snapshot`.
    pub(super) async fn page<'a>(
        &self,
        snapshot: &Snapshot,
        entries: &'a [CatalogEntry],
    ) -> Result<(Vec<&'a CatalogEntry>, Option<String>), Problem> {
        if let Some(server) = &self.server {
            snapshot.server(server)?;
        }
        let mut found = self.found(entries).await;
        if let Some(cursor) = &self.cursor {
            let last = position(cursor, &found).await.ok_or_else(|| {
                wrong("`cursor` names no item of this list").hinting("begin again without `cursor`")
            })?;
            found.drain(..=last);
        }
        let limit = self.limit.unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|entry| digest_of(entry));
        Ok((found, next))
    }

    async fn found<'a>(&self, entries: &'a [CatalogEntry]) -> Vec<&'a CatalogEntry> {
        let of_server =
            |entry: &&CatalogEntry| self.server.as_deref().is_none_or(|name| name == &*entry.route.server);
        let entries = entries.iter().filter(of_server);
        let query = self.query.as_deref().unwrap_or_default().to_lowercase();
        let words: Vec<&str> = query.split_whitespace().take(MAX_WORDS).collect();
        if words.is_empty() {
            return entries.collect();
        }
        let (mut ranked, mut work) = (Vec::new(), WorkBudget::new());
        for entry in entries {
            ranked.extend(rank(entry, query.trim(), &words).map(|rank| (rank, entry)));
            work.charge(entry.definition.bytes().len());
            work.yield_if_spent().await;
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// The most items of a page with the parameter `limit`. The error is the text for a bad one.
pub(super) fn page_size(limit: Option<usize>) -> Result<usize, &'static str> {
    let limit = limit.unwrap_or(PAGE);
    (1..=MAX_PAGE).contains(&limit).then_some(limit).ok_or("`limit` is not a number from 1 to 1000")
}

/// How well `entry` matches, from 0; none if a word is missing.
fn rank(entry: &CatalogEntry, query: &str, words: &[&str]) -> Option<u8> {
    let text = |member| {
        let text = entry.definition.text(member).unwrap_or_default();
        text[..text.floor_char_boundary(MAX_SEARCHED)].to_lowercase()
    };
    let names = [entry.exposed.to_lowercase(), entry.route.subject.to_lowercase(), text("name")];
    let has_all = |texts: &[&str]| words.iter().all(|word| texts.iter().any(|text| text.contains(word)));
    let [offered, own, shown] = [&*names[0], &*names[1], &*names[2]];
    if names.iter().any(|name| name == query) {
        return Some(0);
    }
    if names.iter().any(|name| name.starts_with(query)) {
        return Some(1);
    }
    if has_all(&[offered, own, shown]) {
        return Some(2);
    }
    let title = text("title");
    if has_all(&[offered, own, shown, &title]) {
        return Some(3);
    }
    has_all(&[offered, own, shown, &title, &text("description")]).then_some(4)
}

/// The position of the item that `cursor` names.
async fn position(cursor: &str, entries: &[&CatalogEntry]) -> Option<usize> {
    let mut work = WorkBudget::new();
    for (at, entry) in entries.iter().enumerate() {
        if digest_of(entry) == *cursor {
            return Some(at);
        }
        work.charge(entry.exposed.len());
        work.yield_if_spent().await;
    }
    None
}

/// The cursor after `entry`. A name can be a long URI, which would not fit into the head of a request.
fn digest_of(entry: &CatalogEntry) -> String {
    entity_tag::digest_of(entry.exposed.as_bytes())
}

fn wrong(detail: &str) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, detail).hinting(HINT)
}
