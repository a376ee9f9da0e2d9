//! `rag_health`: the health that the bridge reports, and which techniques of its list are offered.
//!
//! The tool answers even if the bridge does not, because it reports exactly that. So it never fails because
//! of the bridge.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use super::bridge::Bridge;
use super::techniques::{HEALTH_TOOL, LeftOut, TechniqueList};
use crate::answer::Failure;
use crate::rest::plain;
use crate::tool::{Effect, Tool, ToolInfo};
use json::Raw;
use upstream::api::{Delivery, Error};

/// Time limit of the bridge.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) const ABOUT: ToolInfo<'_> = ToolInfo {
    name: HEALTH_TOOL,
    title: "Health of the RAG service",
    description: "Ask how the RAG service is: whether it answers, what it says of its pipelines and its database, \
        and which techniques it offers. Costs nothing. Use it when a technique fails.",
    effect: Effect::Reads,
};

/// Nothing.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct HealthInput {}

#[derive(Debug, Serialize, JsonSchema)]
struct HealthOutput {
    /// The service's own word, such as `healthy`. `unreachable`: it does not answer; `failing`: it answers
    /// with an error, or with what makes no sense.
    status: String,
    /// Whether it answered.
    reachable: bool,
    /// How long that took.
    latency_ms: u64,
    /// All it said: `pipelines`, `database` and whatever else.
    #[schemars(with = "Option<Map<String, Value>>")]
    service: Option<Raw>,
    /// The reason of a failure.
    detail: Option<String>,
    /// The techniques that are offered; the tool of each has `rag_` before it.
    techniques: Vec<String>,
    /// Those that the service names and that are not offered.
    left_out: Vec<LeftOut>,
    /// How many more there are of them.
    more_left_out: usize,
    /// Seconds since the list of techniques was read.
    list_age_seconds: f64,
    /// Why it could not be read again since.
    list_error: Option<String>,
}

pub(super) fn tool() -> Tool {
    Tool::new::<HealthInput, HealthOutput>(&ABOUT)
}

/// Returns the result of the tool.
pub(super) async fn answer(
    bridge: &Bridge,
    list: &TechniqueList,
    tool: &Tool,
    arguments: &Raw,
) -> Result<Raw, Failure> {
    let HealthInput {} = tool.read(arguments)?;
    let started = Instant::now();
    let late = |_| Err(Error::TimedOut { after: LIMIT });
    let requested = timeout(LIMIT, bridge.health()).await.unwrap_or_else(late);
    let (offer, age) = (list.offer(), list.age());
    let (status, service) = match &requested {
        Ok(service) => {
            (service.get_as("status").unwrap_or_else(|| "unknown".to_owned()), Some(service.clone()))
        }
        Err(error) => (if has_answered(error) { "failing" } else { "unreachable" }.to_owned(), None),
    };
    Ok(Raw::of(&HealthOutput {
        status: plain(status, bridge.secrets()),
        reachable: requested.as_ref().map_or_else(has_answered, |_| true),
        latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        service,
        detail: requested.err().map(|error| error.to_string()),
        techniques: offer.names().map(str::to_owned).collect(),
        left_out: offer.left_out.clone(),
        more_left_out: offer.more_left_out,
        list_age_seconds: age.since.as_secs_f64(),
        list_error: age.failure,
    }))
}

fn has_answered(error: &Error) -> bool {
    error.delivery() == Delivery::Answered
}
