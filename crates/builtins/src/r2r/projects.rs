//! Selects the project of a call: that of the settings, or that of the client if the settings say so.
//!
//! Invariants: the project of a client is used only if the operator allows it. The `_meta` of a call takes
//! precedence over the folders of its client. A client is asked for its folders in each call, because they
//! may change at any time and two clients can share one principal. At most [`MAX_PROJECTS`] projects are
//! kept.
//!
//! Not here: the collection of a project (`project`).

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use serde::Deserialize;
use serde_json::json;

use super::client::Client;
use super::project::Project;
use crate::Report;
use crate::r2r::config;
use crate::r2r::project_name::ProjectName;
use crate::refusal::Refusal;
use json::Raw;
use protocol::method;
use upstream::api::Error;

/// The member of `_meta` that names the project of a call.
pub(super) const META: &str = "switchyard/project";
/// Key of the request for the folders of a client.
const ROOTS: &str = "roots";
/// Most projects of clients that are kept.
const MAX_PROJECTS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// The projects of one R2R server.
pub(super) struct Projects {
    client: Client,
    options: config::R2rOptions,
    identity: Arc<str>,
    own: Arc<Project>,
    others: Mutex<LruCache<ProjectName, Arc<Project>>>,
}

/// The project of a call, or the result that asks the client for it.
pub(super) enum ProjectChoice {
    Known(Arc<Project>),
    Ask(Raw),
}

impl Projects {
    /// Opens the project of the settings, and checks the file of collections.
    pub(super) async fn open(
        client: &Client,
        options: &config::R2rOptions,
        identity: &Arc<str>,
    ) -> Result<Self, Error> {
        let own = Project::open(client, options, identity).await?;
        Ok(Self {
            client: client.clone(),
            options: options.clone(),
            identity: Arc::clone(identity),
            own: Arc::new(own),
            others: Mutex::new(LruCache::new(MAX_PROJECTS)),
        })
    }

    /// Returns the project of the settings.
    pub(super) const fn own(&self) -> &Arc<Project> {
        &self.own
    }

    /// Returns the project of the call that `report` belongs to.
    pub(super) fn of(&self, report: &Report) -> Result<ProjectChoice, Refusal> {
        if !self.options.follows_client {
            return Ok(ProjectChoice::Known(Arc::clone(&self.own)));
        }
        if let Some(said) = report.meta(META).filter(|said| !said.is_null()) {
            let name = said.read::<String>().ok().and_then(|text| ProjectName::parse(&text));
            return name.map(|name| ProjectChoice::Known(self.named(&name))).ok_or_else(|| misnamed(&said));
        }
        Ok(match report.input(ROOTS) {
            Some(answer) => ProjectChoice::Known(
                first_folder(&answer).map_or_else(|| Arc::clone(&self.own), |name| self.named(&name)),
            ),
            None if report.can_list_roots() => ProjectChoice::Ask(question()),
            None => ProjectChoice::Known(Arc::clone(&self.own)),
        })
    }

    fn named(&self, name: &ProjectName) -> Arc<Project> {
        // Nothing panics while it is held.
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(Project::new(&self.client, &self.options, &self.identity, name.clone()));
        Arc::clone(others.get_or_insert(name.clone(), make))
    }
}

/// Returns the result that asks the client for its folders.
fn question() -> Raw {
    Raw::of(&json!({
        "resultType": "input_required",
        "inputRequests": {ROOTS: {"method": method::ROOTS_LIST}},
    }))
}

/// Returns the first folder in the answer of a client.
fn first_folder(answer: &Raw) -> Option<ProjectName> {
    #[derive(Deserialize)]
    struct Root {
        uri: String,
    }
    let roots = answer.get("roots")?;
    let mut roots = roots.elements().filter_map(|root| root.read::<Root>().ok());
    roots.find_map(|root| ProjectName::parse(&root.uri).filter(|name| name.path.is_some()))
}

fn misnamed(said: &Raw) -> Refusal {
    Refusal::new("invalid_argument", &format!("_meta.{META}"), said)
        .because("The project of this call is not named as a project can be.")
        .valid("a name of 1 to 128 bytes, an absolute path, or a file: URI")
        .suggest("Send the name of the project, or leave it out.")
}
