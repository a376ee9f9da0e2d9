//! An answer of one HTTP request or on one pipe: status, headers, and every byte.

use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::sse;

/// One HTTP answer, read completely.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The HTTP headers.
    pub headers: HeaderMap,
    /// The body as text.
    pub body: String,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Answer {
    /// Reads `response` completely.
    pub async fn read(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.text().await.expect("the answer comes whole");
        Self { status, headers, body }
    }

    /// One header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a visible header"))
    }

    /// Whether it is an event stream.
    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The body as JSON, for REST.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body as JSON, for REST: of an event stream the data of the last event.
    pub fn json_or_event(&self) -> Value {
        if !self.is_stream() {
            return self.json();
        }
        let last = sse::events(&self.body).pop().unwrap_or_else(|| panic!("no event: {self:?}"));
        serde_json::from_str(&last.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON-RPC messages in it as text, in order.
    pub fn messages(&self) -> Vec<String> {
        let mut texts = if self.is_stream() {
            sse::events(&self.body).into_iter().map(|event| event.data).collect()
        } else {
            vec![self.body.clone()]
        };
        texts.retain(|text| !text.is_empty());
        texts
    }

    /// The notifications that came before the response.
    pub fn notifications(&self) -> Vec<Value> {
        let messages = self.messages().into_iter();
        let parsed = messages.map(|text| serde_json::from_str::<Value>(&text).expect("JSON"));
        parsed.filter(|message| message.get("method").is_some()).collect()
    }

    /// The text of the only response in it.
    pub fn response_text(&self) -> String {
        let mut found = self.messages();
        found.retain(|text| {
            serde_json::from_str::<Envelope<'_>>(text).is_ok_and(|e| e.result.is_some() || e.error.is_some())
        });
        assert_eq!(found.len(), 1, "one response: {self:?}");
        found.remove(0)
    }

    /// The `result` member, byte for byte.
    pub fn result_text(&self) -> String {
        self.member(|envelope| envelope.result)
    }

    /// The `id` member, byte for byte.
    pub fn id_text(&self) -> String {
        self.member(|envelope| envelope.id)
    }

    /// The result.
    pub fn result(&self) -> Value {
        serde_json::from_str(&self.result_text()).expect("JSON")
    }

    /// The error object.
    pub fn error(&self) -> Value {
        serde_json::from_str(&self.member(|envelope| envelope.error)).expect("JSON")
    }

    /// The error code.
    pub fn error_code(&self) -> i64 {
        self.error()["code"].as_i64().expect("an integer code")
    }

    /// The text of the first content block of a tool's result.
    pub fn text(&self) -> String {
        self.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("text: {self:?}")).to_owned()
    }

    /// The names in the result of `tools/list`.
    pub fn tool_names(&self) -> Vec<String> {
        #[derive(Deserialize)]
        struct Tool {
            name: String,
        }
        #[derive(Deserialize)]
        struct List {
            tools: Vec<Tool>,
        }
        let list: List = serde_json::from_str(&self.result_text()).expect("a list of tools");
        list.tools.into_iter().map(|tool| tool.name).collect()
    }

    fn member(&self, pick: impl for<'a> Fn(Envelope<'a>) -> Option<&'a RawValue>) -> String {
        let text = self.response_text();
        let envelope = serde_json::from_str(&text).expect("JSON");
        pick(envelope).unwrap_or_else(|| panic!("no such member: {self:?}")).get().to_owned()
    }
}
