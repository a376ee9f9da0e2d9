//! Against exchanges that were recorded from a real server, and against a real one where the variable
//! `SWITCHYARD_CHROMA` has its URL.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use serde_json::{Value, json};
use testkit::served::Served;
use url::Url;
use uuid::Uuid;

use super::*;
use runtime::shutdown::Shutdown;

/// The collection of the recordings.
const ID: Uuid = Uuid::from_u128(0xf75a_d249_92a7_4d72_8f8e_3998_f089_2118);

/// A server that answers a recorded request as it was answered, and everything else with 418.
fn recorded(names: &[&str]) -> Served {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/backends/chroma");
    let read = |name: &&str| -> Value {
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).expect("a recording");
        serde_json::from_str(&text).expect("JSON")
    };
    let recordings: Arc<Vec<Value>> = Arc::new(names.iter().map(read).collect());
    Served::start(Router::new().fallback(move |request: Request<Body>| {
        let recordings = Arc::clone(&recordings);
        async move { answer(&recordings, request).await }
    }))
}

fn client(url: &str) -> ChromaClient {
    let place = DatabaseAddress::usual(Url::parse(url).expect("a URL"));
    ChromaClient::new(&place, &crate::server_context(&Shutdown::new())).expect("usable")
}

async fn answer(recordings: &[Value], request: Request<Body>) -> (StatusCode, String) {
    let (method, path) = (request.method().to_string(), request.uri().to_string());
    let body = to_bytes(request.into_body(), 1 << 20).await.expect("a body");
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_it = |recording: &&Value| {
        let requested = &recording["request"];
        requested["method"] == *method && requested["path"] == *path && requested["body"]["json"] == body
    };
    match recordings.iter().find(is_it) {
        Some(recording) => {
            let status =
                recording["response"]["status"].as_u64().and_then(|status| u16::try_from(status).ok());
            let status = StatusCode::from_u16(status.expect("a status")).expect("a status");
            (status, recording["response"]["json"].to_string())
        }
        None => (StatusCode::IM_A_TEAPOT, format!("{method} {path} {body}")),
    }
}

fn metadata(value: Value) -> Metadata {
    let Value::Object(map) = value else { panic!("no object: {value}") };
    map
}

#[tokio::test]
async fn collections_are_made_found_and_dropped_by_name() {
    let server = recorded(&[
        "collection-create",
        "collection-get-by-name",
        "collection-get-missing",
        "collection-delete",
    ]);
    let chroma = client(&server.url());
    let about = metadata(json!({"description": "docs", "created_at": "2026-11-20T09:00:00Z"}));
    let made = chroma.create("mcp_fixture", Some(&about)).await.expect("made");
    assert_eq!((made.id, made.space(), made.dimension), (ID, Space::Cosine, None));
    let found = chroma.collection("mcp_fixture").await.expect("asked").expect("there");
    assert_eq!((found.id, found.name.as_str()), (ID, "mcp_fixture"));
    assert_eq!(chroma.collection("no_such_collection").await.expect("asked"), None);
    assert!(chroma.drop_collection("mcp_fixture").await.expect("dropped"));
    let gone = recorded(&["collection-delete-again"]);
    assert!(!client(&gone.url()).drop_collection("mcp_fixture").await.expect("asked"));
}

#[tokio::test]
async fn records_are_stored_read_and_dropped() {
    let server = recorded(&[
        "records-upsert",
        "records-get-ids-only",
        "records-delete-ids",
        "records-count",
        "pre-flight-checks",
    ]);
    let chroma = client(&server.url());
    let record = Record {
        id: "doc3#0".into(),
        vector: vec![0.0, 1.0, 0.0],
        document: "Upserted.".into(),
        metadata: metadata(json!({"document_id": "doc3"})),
    };
    chroma.upsert(ID, &Records::new(vec![record], Some(3)).expect("good")).await.expect("stored");
    let select = Select { filter: Some(json!({"document_id": "doc1"})), ..Select::default() };
    assert_eq!(chroma.ids(ID, &select).await.expect("read"), ["doc1#0", "doc1#1"]);
    chroma.delete(ID, &["doc3#0".into(), "missing".into()]).await.expect("dropped");
    chroma.delete(ID, &[]).await.expect("nothing to ask for");
    assert_eq!(chroma.count(ID).await.expect("counted"), 6);
    assert_eq!(chroma.most_records().await.expect("asked"), 5_461);
}

#[tokio::test]
async fn a_query_gives_what_is_near_with_its_distance() {
    let server = recorded(&["records-query-where", "records-query-zero"]);
    let chroma = client(&server.url());
    let conditions = json!({"$and": [{"document_id": "doc1"}, {"chunk_index": {"$gte": 1}}]});
    let query = VectorQuery {
        vector: vec![0.9, 0.1, 0.0],
        limit: 3,
        filter: filter(&metadata(conditions)).expect("good"),
    };
    let hits = chroma.query(ID, &query).await.expect("found");
    assert_eq!(hits.len(), 1);
    let score = Space::Cosine.score(hits[0].distance.expect("a distance"));
    assert!((score - 0.861).abs() < 0.001, "{score}");
    assert!((Space::L2.score(0.5) - 0.75).abs() < 1e-9);
    // As Chroma 1.5.9 answers for equal vectors.
    assert!(Space::Cosine.score(-4.768_371_6e-7) <= 1.0);
}

#[test]
fn records_that_chroma_would_garble_are_not_sent() {
    let record = |id: &str, vector: &[f32]| Record {
        id: id.into(),
        vector: vector.to_vec(),
        document: String::new(),
        metadata: Metadata::new(),
    };
    let refused = |records: Vec<Record>, dimension| Records::new(records, dimension).expect_err("refused");
    assert_eq!(refused(vec![], None), BadRecords::None);
    assert_eq!(refused(vec![record("", &[1.0])], None), BadRecords::Id { at: 0 });
    assert_eq!(refused(vec![record("a", &[1.0]), record("a", &[1.0])], None), BadRecords::Id { at: 1 });
    let vector = |at, expected, found| BadRecords::Vector { at, expected, found };
    assert_eq!(refused(vec![record("a", &[1.0]), record("b", &[1.0, 2.0])], None), vector(1, 1, 2));
    assert_eq!(refused(vec![record("a", &[1.0])], Some(3)), vector(0, 3, 1));
    assert_eq!(refused(vec![record("a", &[f32::NAN])], None), vector(0, 1, 0));
    assert_eq!(refused(vec![record("a", &[])], None), vector(0, 1, 0));
    let large = Record { document: "x".repeat(33 << 20), ..record("a", &[1.0]) };
    assert!(matches!(refused(vec![large], None), BadRecords::TooLarge { .. }));
    assert!(Records::new(vec![record("a", &[1.0]), record("b", &[2.0])], Some(1)).is_ok());
}

#[tokio::test]
async fn a_real_server_keeps_what_it_is_given() {
    let Ok(url) = std::env::var("SWITCHYARD_CHROMA") else { return };
    let chroma = client(&url);
    chroma.health().await.expect("there");
    let name = format!("mcp_test-{}", Uuid::new_v4());
    let collection = chroma.create(&name, None).await.expect("made");
    assert_eq!(collection.space(), Space::Cosine);
    let record = |at: usize, vector: [f32; 2]| Record {
        id: format!("d#{at:05}"),
        vector: vector.to_vec(),
        document: format!("chunk {at}"),
        metadata: metadata(json!({"document_id": "d", "chunk_index": at})),
    };
    let records = vec![record(0, [1.0, 0.0]), record(1, [0.0, 1.0])];
    chroma.upsert(collection.id, &Records::new(records, None).expect("good")).await.expect("stored");
    let conditions = json!({"document_id": "d", "chunk_index": {"$lt": 9}});
    let filter = filter(&metadata(conditions)).expect("good");
    let query = VectorQuery { vector: vec![0.1, 0.9], limit: 5, filter };
    let hits = chroma.query(collection.id, &query).await.expect("found");
    assert_eq!(hits.iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), ["d#00001", "d#00000"]);
    let wrong = VectorQuery { vector: vec![1.0], limit: 1, filter: None };
    let error = chroma.query(collection.id, &wrong).await.expect_err("refused");
    assert!(error.to_string().contains("dimension of 2, got 1"), "{error}");
    chroma.delete(collection.id, &["d#00001".into()]).await.expect("dropped");
    assert_eq!(chroma.count(collection.id).await.expect("counted"), 1);
    assert!(chroma.collections(1_000, 0).await.expect("listed").iter().any(|one| one.name == name));
    assert!(chroma.drop_collection(&name).await.expect("dropped"));
    assert!(!chroma.drop_collection(&name).await.expect("asked"));
    assert_eq!(chroma.collection(&name).await.expect("asked"), None);
}
