//! The resources: the project in numbers, and the client's recent queries.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::answers::Fresh;
use super::documents;
use super::model::{Id, R2rCollection, R2rDocument, Results, Stage};
use super::project::Project;
use crate::answer::Failure;
use crate::r2r::{R2rContext, config};
use crate::{Report, no_resource};
use json::Raw;
use protocol::{ErrorCode, Reply};
use upstream::api::Error;

/// URI of the project and its documents in numbers.
pub(super) const CONTEXT: &str = "r2r://current-project/context";
/// URI of the client's recent queries.
pub(super) const HISTORY: &str = "r2r://search/history";

/// Returns the entries of `resources/list`.
pub(super) fn definitions() -> Vec<Raw> {
    let resource = |uri, name, title, description| {
        Raw::of(&json!({
            "uri": uri, "name": name, "title": title, "description": description,
            "mimeType": "application/json",
        }))
    };
    vec![
        resource(
            CONTEXT,
            "current-project",
            "The project",
            "The project's collection in R2R: its id, how many documents it has and how far they are.",
        ),
        resource(HISTORY, "search-history", "Search history", "Your last ten queries with their times."),
    ]
}

/// Returns the result of `resources/read` for `uri`.
pub(super) async fn read(
    (context, project): (&R2rContext, &Project),
    uri: &str,
    report: &Report,
) -> Result<Reply, Error> {
    let text = match uri {
        CONTEXT => match project_context(context, project).await {
            Ok(text) => text,
            Err(Failure::Failed(error)) => return Err(error),
            Err(Failure::Refused(refusal)) => {
                let (code, numbered) = (ErrorCode::BackendError, ErrorCode::InternalError);
                return Ok(Err(refusal.error(code, numbered, "the project's collection is not known")));
            }
        },
        HISTORY => Raw::of(&json!({"queries": context.history.of(report.affinity())})),
        _ => return Ok(Err(no_resource(uri))),
    };
    let contents = json!([{"uri": uri, "mimeType": "application/json", "text": text.as_str()}]);
    // Both depend on the client and change at any moment, so they are not cached.
    Ok(Ok(Raw::object(&[
        ("contents", &Raw::of(&contents)),
        ("ttlMs", &Raw::of(&0)),
        ("cacheScope", &Raw::of("private")),
    ])))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Context<'a> {
    project_name: &'a str,
    /// The absolute path of the project's folder, as the client or the settings name it; else the first folder
    /// that documents are taken from.
    project_path: Option<String>,
    /// None: there is no collection yet.
    collection_id: Option<Id>,
    collection_name: &'a str,
    document_count: u64,
    /// Last change of the collection or of its newest document.
    last_updated: Option<String>,
    ingestion_status: StatusCounts,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct StatusCounts {
    pending: usize,
    success: u64,
    failed: usize,
    /// Documents of the account that were looked through for the pending and failed ones.
    scanned: u64,
    /// There are more: pending and failed may be too small, and success too large.
    incomplete: bool,
}

async fn project_context(context: &R2rContext, project: &Project) -> Result<Raw, Failure> {
    let Some(collection) = project.peek().await? else {
        return Ok(Raw::of(&about((context, project), None, None, StatusCounts::default())));
    };
    // Boxed: it is large, and its callers have room for several.
    let make = Box::pin(async { counted(context, project, collection).await.map(Fresh::lasting) });
    let ttl = context.options.cache_ttl.list;
    let answer = context.answers.fetch(ttl, Some(collection), &(CONTEXT, project.path()), make).await?;
    Ok(answer.without("cached"))
}

async fn counted<'a>(context: &R2rContext, project: &'a Project, id: Id) -> Result<Context<'a>, Failure> {
    let text = id.to_string();
    let (itself, page) = (["collections", &text], ["collections", &text, "documents"]);
    let (itself, page, scan) = tokio::try_join!(
        context.client.get::<Results<R2rCollection>>(&itself, &[]),
        context.client.page::<R2rDocument>(&page, (0, 1), &[]),
        documents::scan(context, id),
    )?;
    let of = |stage| scan.documents.iter().filter(|document| document.stage() == stage).count();
    let is_listed = |document: &&R2rDocument| document.collection_ids.contains(&id);
    let listed = scan.documents.iter().filter(is_listed);
    let unusable = listed.filter(|document| document.stage() != Stage::Success).count() as u64;
    let counts = StatusCounts {
        pending: of(Stage::Pending),
        // The list of a collection says how many it has, those that failed too.
        success: page.total_entries.unwrap_or_default().saturating_sub(unusable),
        failed: of(Stage::Failed),
        scanned: scan.scanned,
        incomplete: !scan.is_complete,
    };
    let times = scan.documents.into_iter().filter_map(|document| document.updated_at);
    // All times are RFC 3339 of one form and zone, so they sort as text.
    let last = times.chain(itself.results.updated_at).max();
    Ok(about((context, project), Some(id), last, counts))
}

fn about<'a>(
    (context, project): (&R2rContext, &'a Project),
    id: Option<Id>,
    last_updated: Option<String>,
    counts: StatusCounts,
) -> Context<'a> {
    Context {
        project_name: project.name(),
        project_path: project.path().map(str::to_owned).or_else(|| first_root(&context.options)),
        collection_id: id,
        collection_name: project.collection_name(),
        document_count: counts.success,
        last_updated,
        ingestion_status: counts,
    }
}

/// Returns the first folder that files may be ingested from, as an absolute path.
fn first_root(options: &config::R2rOptions) -> Option<String> {
    let root = options.ingest_roots.first()?;
    Some(std::path::absolute(root).as_deref().unwrap_or(root).display().to_string())
}
