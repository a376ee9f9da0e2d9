//! Test fixture: the R2R tools, connected to an R2R that answers as recorded.

use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::double::{self, EMAIL, PASSWORD};
use super::model::{Id, Results};
use super::{R2r, search};
use crate::hostile::fits;
use crate::r2r::config::{self, CacheTtl, Credentials};
use crate::r2r::project_name::ProjectName;
use crate::{Builtin, Report, server_context};
use json::Raw;
use net::http::Form;
use protocol::Reply;
use runtime::shutdown::Shutdown;
use upstream::api::{Error, Events};

/// Both sides, and the folder with the file of collections.
pub(super) struct Fixture {
    pub r2r: double::R2r,
    pub ours: R2r,
    pub folder: TempDir,
}

pub(super) fn options(r2r: &double::R2r, folder: &TempDir) -> config::R2rOptions {
    let collection_mapping_file = Some(folder.path().join("collections.json"));
    config::R2rOptions { collection_mapping_file, ..without_file(r2r) }
}

pub(super) fn without_file(r2r: &double::R2r) -> config::R2rOptions {
    let (email, password) = (EMAIL.to_owned().into(), PASSWORD.to_owned().into());
    config::R2rOptions {
        url: r2r.url().parse().expect("a URL"),
        credentials: Credentials::Account { email, password },
        project: ProjectName { name: "my-app".into(), path: None },
        follows_client: false,
        pace: None,
        auto_create_collections: true,
        collection_mapping_file: None,
        ingest_roots: Vec::new(),
        max_file_bytes: 1,
        advanced_search: config::AdvancedSearch::default(),
        cache_ttl: CacheTtl::default(),
    }
}

pub(super) async fn open(options: &config::R2rOptions) -> Result<R2r, Error> {
    let server_context = server_context(&Shutdown::new());
    R2r::open(&"r2r".into(), options, &server_context, Events::channel().0).await
}

impl Fixture {
    pub(super) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut config::R2rOptions)) -> Self {
        let (r2r, folder) = (double::R2r::start(), tempfile::tempdir().expect("a folder"));
        let mut options = options(&r2r, &folder);
        change(&mut options);
        let ours = open(&options).await.expect("it lets us in");
        Self { r2r, ours, folder }
    }

    /// A fixture with three documents in the project's collection and one in another.
    pub(super) async fn filled() -> Self {
        Self::filled_with(|_| {}).await
    }

    pub(super) async fn filled_with(change: impl FnOnce(&mut config::R2rOptions)) -> Self {
        let fixture = Self::with(change).await;
        let own = fixture.own().await;
        fixture
            .put(own, "install.md", "Install the gateway with the package. It listens on port 9000.")
            .await;
        fixture.put(own, "tokens.md", "Access tokens expire after one hour. They are renewed before.").await;
        fixture.put(own, "backups.md", "Backups are taken every night and kept for thirty days.").await;
        let client = &fixture.ours.context.client;
        let other: Results<Value> =
            client.post(&["collections"], &json!({"name": "elsewhere"})).await.expect("made");
        let other = serde_json::from_value(other.results["id"].clone()).expect("an id");
        fixture.put(other, "secret.md", "Access tokens of elsewhere are secret.").await;
        fixture
    }

    pub(super) async fn own(&self) -> Id {
        let Ok(own) = self.ours.context.projects.own().own().await else { panic!("no collection") };
        own
    }

    /// Uploads a document in the way Switchyard does. Returns its id.
    pub(super) async fn put(&self, collection: Id, name: &str, text: &str) -> String {
        let title = name.trim_end_matches(".md");
        let made = self.ours.context.client.upload::<Results<Value>>(&["documents"], || {
            let pieces = stream::iter([Ok::<_, Error>(Bytes::from(text.to_owned()))]);
            let ids = json!([collection]).to_string();
            let metadata = json!({"team": "core", "note": title, "collection_ids": [collection]}).to_string();
            let form = Form::new().file("file", name, text.len() as u64, pieces);
            form.text("collection_ids", &ids).text("metadata", &metadata)
        });
        let made = made.await.expect("taken in");
        made.results["document_id"].as_str().expect("an id").to_owned()
    }

    /// Returns the whole result of a call.
    pub(super) async fn result(&self, tool: &str, arguments: &Value) -> Value {
        let reply = self.reply(tool, arguments, &Report::none()).await.expect("reached");
        reply.expect("a result").read().expect("JSON")
    }

    pub(super) async fn reply(&self, tool: &str, arguments: &Value, report: &Report) -> Result<Reply, Error> {
        self.ours.call(tool, Raw::of(arguments), report).await
    }

    /// Returns the answer of a successful call, which must match the output schema and have the same JSON as
    /// text.
    pub(super) async fn ask(&self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, &arguments).await;
        assert_eq!(result["isError"], false, "{tool} {arguments}: {result}");
        let text = result["content"][0]["text"].as_str().expect("text");
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), result["structuredContent"]);
        let answer = result["structuredContent"].clone();
        let tool = self.ours.tools.iter().find(|known| known.name() == tool).expect("a tool");
        let schema: Value = tool.definition().get("outputSchema").expect("a schema").read().expect("JSON");
        fits(&schema, &answer, "answer");
        answer
    }

    /// Returns the explanation of a refused call.
    pub(super) async fn refused(&self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, &arguments).await;
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
        assert!(result.get("structuredContent").is_none());
        serde_json::from_str(result["content"][0]["text"].as_str().expect("text")).expect("JSON")
    }

    pub(super) async fn read(&self, uri: &str, report: &Report) -> Value {
        let result = self.ours.read(uri, report).await.expect("reached").expect("a resource");
        let result: Value = result.read().expect("JSON");
        assert_eq!(result["cacheScope"], "private", "it is of whoever asks");
        assert_eq!(result["contents"][0]["uri"], uri);
        serde_json::from_str(result["contents"][0]["text"].as_str().expect("text")).expect("JSON")
    }

    /// Returns the bodies of the searches that R2R received.
    pub(super) fn searches(&self) -> Vec<Value> {
        let seen = self.r2r.seen().into_iter().filter(|seen| seen.path.contains("/retrieval/"));
        seen.map(|seen| serde_json::from_str(&seen.body).expect("JSON")).collect()
    }
}

/// `limit` and the like are what the definition says.
pub(super) const SEARCH: &str = search::ABOUT.name;
