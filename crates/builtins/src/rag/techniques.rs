//! The techniques that are tools: selects the names of the bridge's list, describes the tools, and keeps the list current.
//!
//! ```text
//!  read ──unchanged──▶ kept        read ──changed──▶ replaced, clients are notified
//!  read ──failed──▶ kept, with the reason        read ──key refused──▶ closed
//! ```
//!
//! Invariants: one read runs at a time and takes at most [`LIMIT`]. A failed read changes nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::ask;
use super::bridge::{Bridge, LONGEST, TechniqueNames};
use crate::rag::config;
use crate::tool::{Effect, Tool, ToolInfo};
use protocol::feature::List;
use protocol::sanitize;
use upstream::api::{Closing, Error, Event, Events};

/// Prefix of the tool names.
const PREFIX: &str = "rag_";
/// Name of the tool that reports the health. No technique may have it.
pub(super) const HEALTH_TOOL: &str = "rag_health";
/// Most skipped names that are kept.
const MOST_LEFT_OUT: usize = 20;
/// Time limit of one read.
const LIMIT: Duration = Duration::from_secs(10);
/// Shortest time between two reads.
const GAP: Duration = Duration::from_millis(200);

/// One technique.
#[derive(Debug)]
pub(super) struct Technique {
    /// Name at the bridge.
    pub name: String,
    /// The tool that invokes it.
    pub tool: Tool,
}

/// The part of a list that is offered.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Sorted by name.
    pub techniques: Vec<Technique>,
    /// The first names that are not offered.
    pub left_out: Vec<LeftOut>,
    /// Number of further names that are not offered.
    pub more_left_out: usize,
}

/// A name that is not offered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(super) struct LeftOut {
    /// As the bridge wrote it, made safe to show.
    pub name: String,
    /// Why.
    pub reason: &'static str,
}

impl Offer {
    /// Makes the offer from `listed`, with at most `most` techniques.
    pub(super) fn of(listed: TechniqueNames, most: usize) -> Self {
        let mut offer = Self { more_left_out: listed.others, ..Self::default() };
        for name in listed.names {
            match refusal(&name).or_else(|| (offer.techniques.len() >= most).then_some(TOO_MANY)) {
                None => offer.techniques.push(Technique { tool: tool(&name), name }),
                Some(reason) if offer.left_out.len() < MOST_LEFT_OUT => {
                    offer.left_out.push(LeftOut { name: sanitize::shown(&name), reason });
                }
                Some(_) => offer.more_left_out += 1,
            }
        }
        offer
    }

    /// Makes an offer of the techniques that are described here, at most `most`.
    pub(super) fn known(most: usize) -> Self {
        let names = KNOWN.iter().map(|known| known.name.to_owned()).collect();
        Self::of(TechniqueNames { names, others: 0 }, most)
    }

    /// Returns the names of its techniques.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.techniques.iter().map(|technique| technique.name.as_str())
    }

    /// Returns the names that this offer skips and `before` does not.
    fn newly_left_out(&self, before: &Self) -> Vec<String> {
        let known: BTreeSet<&LeftOut> = before.left_out.iter().collect();
        self.left_out.iter().filter(|one| !known.contains(one)).map(|one| one.name.clone()).collect()
    }
}

const TOO_MANY: &str = "more than `max_techniques`";

/// Returns why no tool can have this name, or `None` if one can.
fn refusal(name: &str) -> Option<&'static str> {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_of_names) {
        return Some("a name has 1 to 60 letters, digits, `_`, `-` or `.`");
    }
    (HEALTH_TOOL.strip_prefix(PREFIX) == Some(name)).then_some("`rag_health` reports the health")
}

fn tool(technique: &str) -> Tool {
    let name = format!("{PREFIX}{technique}");
    let known = KNOWN.iter().find(|known| known.name == technique);
    let generic = format!(
        "Ask a question and get an answer from the documents of a RAG service, found and written with its \
         technique {technique}. What that is like, the service knows; rag_basic is usually the plainest. \
         {COMMON}"
    );
    let (title, description) = match known {
        Some(known) => (known.title.to_owned(), format!("{} {COMMON}", known.description)),
        None => (format!("RAG: {technique}"), generic),
    };
    ask::tool(&ToolInfo { name: &name, title: &title, description: &description, effect: Effect::Costs })
}

const COMMON: &str = "Answers with the text, the documents it rests on and their sources. Takes seconds, and \
    each call costs a language model's tokens.";

/// Description of a well-known technique.
struct WellKnownTechnique {
    name: &'static str,
    title: &'static str,
    description: &'static str,
}

const KNOWN: [WellKnownTechnique; 6] = [
    WellKnownTechnique {
        name: "basic",
        title: "RAG: nearest passages",
        description: "Ask a question and get an answer that a language model writes from the passages nearest in \
            meaning. The plainest and fastest technique: begin with it.",
    },
    WellKnownTechnique {
        name: "basic_rerank",
        title: "RAG: nearest passages, ranked again",
        description: "Ask a question and get an answer from passages that were found by meaning and then ranked again \
            by a model that reads question and passage together. Slower than rag_basic and more exact: \
            use it when many documents are about nearly the same.",
    },
    WellKnownTechnique {
        name: "crag",
        title: "RAG: passages that are judged first",
        description: "Ask a question and get an answer from passages that were judged before they are used (corrective \
            RAG): what does not bear on the question is dropped or looked for again. Use it when rag_basic \
            answers beside the point.",
    },
    WellKnownTechnique {
        name: "graphrag",
        title: "RAG: a graph of what belongs together",
        description: "Ask a question and get an answer along a graph of the things that documents name and of how they \
            are related. Use it for questions that join facts of several documents: who, with whom, through what.",
    },
    WellKnownTechnique {
        name: "pylate_colbert",
        title: "RAG: compared word by word",
        description: "Ask a question and get an answer from passages that were compared with it word by word (ColBERT, \
            late interaction). Use it for names, codes, rare terms and long questions, where the general \
            meaning finds too much.",
    },
    WellKnownTechnique {
        name: "iris_global_graphrag",
        title: "RAG: the whole collection",
        description: "Ask a question about a whole collection and get an answer from summaries of its graph \
            (global GraphRAG on IRIS). Use it for themes, overviews and comparisons that no single passage answers.",
    },
];

/// The list, with all that is needed to read it again.
pub(super) struct TechniqueList {
    server: Arc<str>,
    bridge: Bridge,
    most: usize,
    events: Events,
    state: Mutex<State>,
    look: Notify,
    /// Closed when the bridge refuses the key.
    refusal: Closing,
}

struct State {
    offer: Arc<Offer>,
    read_at: Instant,
    /// Why the last read failed.
    failure: Option<String>,
}

/// Age of the list.
pub(super) struct Age {
    /// Time since it was read.
    pub since: Duration,
    /// Why it could not be read again.
    pub failure: Option<String>,
}

impl TechniqueList {
    /// Reads the list for the first time.
    pub(super) async fn open(
        server: &Arc<str>,
        bridge: &Bridge,
        options: &config::RagOptions,
        events: Events,
    ) -> Result<Self, Error> {
        let most = options.max_techniques;
        let offer = Arc::new(Offer::of(bridge.techniques().await?, most));
        let list = Self {
            server: Arc::clone(server),
            bridge: bridge.clone(),
            most,
            events,
            state: Mutex::new(State { offer: Arc::clone(&offer), read_at: Instant::now(), failure: None }),
            look: Notify::new(),
            refusal: Closing::default(),
        };
        list.tell_left_out(&Offer::default(), &offer);
        Ok(list)
    }

    /// Returns the current offer.
    pub(super) fn offer(&self) -> Arc<Offer> {
        Arc::clone(&self.lock().offer)
    }

    /// Returns the age of the list.
    pub(super) fn age(&self) -> Age {
        let state = self.lock();
        Age { since: state.read_at.elapsed(), failure: state.failure.clone() }
    }

    /// Requests a read before the next regular one.
    pub(super) fn look_soon(&self) {
        self.look.notify_one();
    }

    /// Resolves with the reason when the bridge has refused the key.
    pub(super) async fn refused(&self) -> String {
        self.refusal.wait().await
    }

    /// Reads the list on request, and otherwise at the interval `every`.
    pub(super) async fn follow(self: Arc<Self>, every: Duration) {
        loop {
            tokio::select! {
                () = self.look.notified() => {}
                () = sleep(every) => {}
            }
            self.read().await;
            sleep(GAP).await;
        }
    }

    async fn read(&self) {
        let late = |_| Err(Error::TimedOut { after: LIMIT });
        match timeout(LIMIT, self.bridge.techniques()).await.unwrap_or_else(late) {
            Ok(listed) => self.take(Offer::of(listed, self.most)),
            Err(error) => self.keep(&error),
        }
    }

    fn take(&self, offer: Offer) {
        let offer = Arc::new(offer);
        let before = {
            let mut state = self.lock();
            (state.read_at, state.failure) = (Instant::now(), None);
            std::mem::replace(&mut state.offer, Arc::clone(&offer))
        };
        self.tell_left_out(&before, &offer);
        if !before.names().eq(offer.names()) {
            tracing::info!(server = %self.server, techniques = offer.techniques.len(), "the techniques of the bridge changed");
            self.events.report(Event::Changed(List::Tools));
        }
    }

    fn keep(&self, error: &Error) {
        let reason = error.to_string();
        let before = self.lock().failure.replace(reason.clone());
        if before.as_ref() != Some(&reason) {
            tracing::warn!(server = %self.server, reason, "the list of techniques cannot be read, the last one stays");
        }
        if let Error::AuthFailed { reason } = error {
            self.refusal.close(reason.clone());
        }
    }

    /// Logs new names that are left out. Names that were logged before are not repeated.
    fn tell_left_out(&self, before: &Offer, now: &Offer) {
        let names = now.newly_left_out(before);
        if !names.is_empty() || now.more_left_out > before.more_left_out {
            let (names, more) = (sanitize::listed(&names), now.more_left_out);
            tracing::warn!(server = %self.server, names, more, "techniques are left out, rag_health says why");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
