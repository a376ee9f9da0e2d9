//! Access to the recordings.

use serde_json::Value;

/// Returns status and JSON of the recorded response `name`.
pub(super) fn answer(name: &str) -> (u16, Value) {
    let recorded = recording(name);
    let response = &recorded["response"];
    let status = response["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    (status.expect("a status"), response["json"].clone())
}

/// Returns the `results` of a recorded response.
pub(super) fn results(name: &str) -> Value {
    answer(name).1["results"].clone()
}

/// Returns the text of a recorded stream.
pub(super) fn stream(name: &str) -> String {
    recording(name)["response"]["text"].as_str().expect("a stream").to_owned()
}

fn recording(name: &str) -> Value {
    let path = format!("{}/../../tests/backends/r2r/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).expect("a recording is JSON")
}
