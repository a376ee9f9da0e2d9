//! Reads an answer that R2R sends while its model writes it.
//!
//! If the model fails or reaches its limit, R2R just ends the stream. So an answer is complete only if `done`
//! was received. Each progress message contains the end of the answer so far, so a client that misses one has
//! lost nothing.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use tokio::time::Instant;

use super::model::{Id, R2rChunk, SearchResults};
use super::search;
use crate::Report;
use net::sse::Event;
use upstream::api::Error;

/// Pause between two progress messages.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of the answer, from its end, in one progress message.
const SHOWN: usize = 2_000;
/// Name of the event with the passages.
const SOURCES: &[u8] = b"search_results";
/// Longest answer in bytes. A longer one is cut off.
const MOST: usize = 1 << 20;

#[derive(Deserialize)]
struct Searched {
    data: SearchResults,
}

#[derive(Deserialize)]
struct Message {
    delta: Delta,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Vec<DeltaPart>,
}

#[derive(Deserialize)]
struct DeltaPart {
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    value: Option<String>,
}

#[derive(Deserialize)]
struct Final {
    generated_answer: Option<String>,
}

/// State of the answer.
#[derive(Default)]
struct AnswerState {
    answer: String,
    chunks: Option<Vec<R2rChunk>>,
    is_done: bool,
}

/// Reads the answer for `collection` from `stream`. Returns `None` if the stream ends before the answer
/// began.
pub(super) async fn read_answer(
    stream: impl Stream<Item = Result<Event, Error>>,
    collection: Id,
    report: &Report,
) -> Result<Option<RagAnswer>, Error> {
    let mut stream = pin!(stream);
    let mut state = AnswerState::default();
    let mut teller = ProgressReporter { report, next: Instant::now() };
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => match state.take(&event, collection) {
                Err(error) if state.answer.is_empty() || *event.name == *SOURCES => return Err(error),
                // The rest cannot be read, but the beginning is still useful.
                Err(_) => break,
                Ok(()) => {}
            },
            Err(error) if state.answer.is_empty() => return Err(error),
            // The answer was cut off, but its beginning is still useful.
            Err(_) => break,
        }
        // Nothing was found, so what the model makes of that is ignored.
        if state.is_over() {
            break;
        }
        teller.report(&state.answer);
    }
    teller.finish(&state.answer);
    Ok(state.into_answer())
}

impl AnswerState {
    fn take(&mut self, event: &Event, collection: Id) -> Result<(), Error> {
        match event.name.as_ref() {
            SOURCES => {
                let found: Searched = read(&event.data)?;
                self.chunks = Some(passages(found.data.chunk_search_results, collection)?);
            }
            // The sources must be known before any text is passed on.
            b"message" if self.chunks.is_some() => {
                let message: Message = read(&event.data)?;
                let texts = message.delta.content.iter().filter_map(|part| part.payload.value.as_deref());
                self.answer.extend(texts);
            }
            b"final_answer" if self.chunks.is_some() => {
                if let Some(whole) = read::<Final>(&event.data)?.generated_answer {
                    self.answer = whole;
                }
            }
            b"done" => self.is_done = true,
            _ => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let nothing = self.chunks.as_ref().is_some_and(Vec::is_empty);
        nothing || self.is_done || self.answer.len() > MOST
    }

    fn into_answer(mut self) -> Option<RagAnswer> {
        let chunks = self.chunks.take()?;
        if self.answer.is_empty() && !chunks.is_empty() {
            return None;
        }
        Some(RagAnswer { answer: self.answer, chunks, model: None, is_complete: self.is_done })
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a Bytes) -> Result<T, Error> {
    serde_json::from_slice(data).map_err(|_| Error::Malformed {
        reason: "an event of the answer is not the JSON that was expected".to_owned(),
    })
}

struct ProgressReporter<'a> {
    report: &'a Report,
    next: Instant,
}

impl ProgressReporter<'_> {
    fn report(&mut self, answer: &str) {
        let now = Instant::now();
        if !answer.is_empty() && now >= self.next {
            self.next = now + PAUSE;
            self.finish(answer);
        }
    }

    fn finish(&self, answer: &str) {
        let from = answer.ceil_char_boundary(answer.len().saturating_sub(SHOWN));
        if !answer.is_empty() {
            self.report.step(&answer[from..]);
        }
    }
}

/// Passages that an answer is made from.
pub(super) const PASSAGES: u32 = 5;

/// Answer of R2R, streamed or not.
pub(super) struct RagAnswer {
    pub answer: String,
    pub chunks: Vec<R2rChunk>,
    pub model: Option<String>,
    pub is_complete: bool,
}

/// Checks that all passages are of `collection`. R2R was asked for this collection only, and the client may
/// not read others.
pub(super) fn passages(chunks: Vec<R2rChunk>, collection: Id) -> Result<Vec<R2rChunk>, Error> {
    if chunks.iter().any(|chunk| !chunk.collection_ids.contains(&collection)) {
        tracing::error!(%collection, "R2R answered from outside the collection it was asked about");
        let reason = "R2R answered from outside the collection; the answer is withheld".to_owned();
        return Err(Error::Malformed { reason });
    }
    Ok(search::own(chunks, collection, PASSAGES as usize))
}

#[cfg(test)]
#[path = "rag_stream_tests.rs"]
mod tests;
