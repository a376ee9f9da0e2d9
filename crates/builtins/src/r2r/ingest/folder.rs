//! `r2r_ingest_folder`: ingests all files below a folder, a few at a time, and reports the progress.
//!
//! Invariants: each file is ingested as by `r2r_ingest_document`. So a folder can be ingested again at any
//! time, and unchanged files are not sent. If the client leaves, no further file is started. If R2R is
//! unavailable, the remaining files are not tried.
//!
//! Not here: which files there are (`no_follow`).

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::{self, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::upload::{NextStep, TRIES, next_step, pause};
use super::{Arguments, Ingest, IngestMode, Target, form};
use crate::Report;
use crate::answer::Failure;
use crate::r2r::documents::check_collection;
use crate::r2r::model::Id;
use crate::tool::{Effect, ToolInfo};
use upstream::api::Error;

/// Most files in the list of failures.
const MAX_SHOWN: usize = 50;
/// Files that are ingested at a time.
const UPLOADS: usize = 4;
/// Longest reason of a failure, in bytes.
const LONGEST_REASON: usize = 500;

/// Arguments of the tool.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(in super::super) struct FolderArguments {
    /// The absolute path of the folder, one that the operator has allowed or below it. Its subfolders count; hidden
    /// files and links do not.
    #[schemars(length(min = 1, max = 4096))]
    pub(in super::super) folder_path: String,
    /// The id of the collection that the documents are to be in. Left out: the project's own.
    pub(in super::super) collection_id: Option<Id>,
    /// Metadata of each document; searches can filter by it.
    pub(in super::super) metadata: Option<Map<String, Value>>,
    /// How carefully the files are read, as in `r2r_ingest_document`.
    #[serde(default)]
    #[schemars(default)]
    pub(in super::super) ingestion_mode: IngestMode,
}

/// Answer of the tool.
#[derive(Debug, Serialize, JsonSchema)]
pub(in super::super) struct FolderIngested {
    /// The collection that the documents are in.
    pub(in super::super) collection_id: Id,
    /// Files in the folder and its subfolders.
    pub(in super::super) total: usize,
    /// Files that can be found now, those that were there before included.
    pub(in super::super) ingested: usize,
    /// Files that were not ingested, the first 50.
    pub(in super::super) not_ingested: Vec<NotIngested>,
    /// How many more there are of them.
    pub(in super::super) more_not_ingested: usize,
    /// Links and other entries that are neither files nor folders.
    pub(in super::super) ignored: usize,
    /// Why the rest was not tried; null if all were.
    pub(in super::super) stopped: Option<String>,
}

/// A file that was not ingested.
#[derive(Debug, Serialize, JsonSchema)]
pub(in super::super) struct NotIngested {
    file_path: String,
    reason: String,
}

/// Description of the tool.
pub(in super::super) const ABOUT_FOLDER: ToolInfo = ToolInfo {
    name: "r2r_ingest_folder",
    title: "Ingest a folder into R2R",
    description: "Adds all files below a folder of this machine to a collection, at most 1000, and answers when \
                  all of them can be found, with those that could not be added. Reports progress file by file. Files \
                  that did not change since are left alone, so after an interruption call it again.",
    effect: Effect::Replaces,
};

impl Ingest {
    /// Runs the tool.
    pub(in super::super) async fn ingest_folder(
        &self,
        arguments: FolderArguments,
        target: Target,
        report: &Report,
    ) -> Result<FolderIngested, Failure> {
        form::metadata(arguments.metadata.clone())?;
        let (roots, folder) = (std::sync::Arc::clone(&self.service.roots), arguments.folder_path.clone());
        let listed = spawn_blocking(move || roots.list(&folder)).await;
        let listed = listed.map_err(|error| Error::Malformed { reason: error.to_string() })??;
        if !target.is_known {
            check_collection(&self.service.client, target.collection).await?;
        }
        let mut answer = FolderIngested {
            collection_id: target.collection,
            total: listed.files.len(),
            ingested: 0,
            not_ingested: Vec::new(),
            more_not_ingested: 0,
            ignored: listed.ignored,
            stopped: None,
        };
        let has_ingested = AtomicBool::new(false);
        let one = |path| self.one(path, &arguments, target, &has_ingested);
        let mut files = std::pin::pin!(stream::iter(listed.files).map(one).buffer_unordered(UPLOADS));
        while let Some((path, outcome)) = files.next().await {
            match outcome {
                Ok(()) => {
                    has_ingested.store(true, Ordering::Relaxed);
                    answer.ingested += 1;
                }
                Err(Failure::Failed(error)) if ends_all(&error) && answer.ingested == 0 => {
                    return Err(error.into());
                }
                Err(failure) => answer.record_failure(path.clone(), &failure),
            }
            report.counted(answer.done(), answer.total, &path);
            if answer.stopped.is_some() {
                break;
            }
        }
        Ok(answer)
    }

    /// Ingests one file. A temporary failure before the first file `has_ingested` ends the call, which the gateway repeats.
    /// Later ones are repeated here.
    async fn one(
        &self,
        file_path: String,
        of: &FolderArguments,
        target: Target,
        has_ingested: &AtomicBool,
    ) -> (String, Result<(), Failure>) {
        let target = Target { is_known: true, ..target };
        let mut tries = 0;
        loop {
            let arguments = Arguments {
                file_path: file_path.clone(),
                collection_id: of.collection_id,
                metadata: of.metadata.clone(),
                ingestion_mode: of.ingestion_mode,
                run_async: false,
            };
            let outcome = self.ingest(arguments, target, &Report::none()).await.map(drop);
            tries += 1;
            match &outcome {
                Err(Failure::Failed(error))
                    if tries < TRIES
                        && has_ingested.load(Ordering::Relaxed)
                        && next_step(error) != NextStep::Stop =>
                {
                    sleep(pause(tries, error)).await;
                }
                _ => return (file_path, outcome),
            }
        }
    }
}

impl FolderIngested {
    const fn done(&self) -> usize {
        self.ingested + self.not_ingested.len() + self.more_not_ingested
    }

    fn record_failure(&mut self, file_path: String, failure: &Failure) {
        let reason = reason(failure);
        if matches!(failure, Failure::Failed(error) if ends_all(error)) {
            self.stopped = Some(reason.clone());
        }
        if self.not_ingested.len() < MAX_SHOWN {
            self.not_ingested.push(NotIngested { file_path, reason });
        } else {
            self.more_not_ingested += 1;
        }
    }
}

/// Returns why a file was not ingested, for people.
fn reason(failure: &Failure) -> String {
    let text = match failure {
        Failure::Refused(refusal) => refusal.message().to_owned(),
        Failure::Failed(error) => error.to_string(),
    };
    text[..text.floor_char_boundary(LONGEST_REASON)].to_owned()
}

/// Whether the next file would fail in the same way. R2R also answers 500 if it cannot read one file.
const fn ends_all(error: &Error) -> bool {
    error.trips_breaker() && !matches!(error, Error::Backend { status: 500, .. })
        || matches!(
            error,
            Error::AuthFailed { .. }
                | Error::Unavailable { .. }
                | Error::Overloaded { .. }
                | Error::Backend { status: 401 | 403 | 429, .. }
        )
}
