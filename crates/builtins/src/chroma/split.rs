//! Cuts a text into chunks for the embedding model.

use crate::chroma::context::ChromaContext;
use crate::chunk::{Chunking, Format, chunks};
use crate::refusal::Refusal;

/// Most chunks of a document. With their vectors they are in memory until the last is written.
const MOST: usize = 10_000;

/// A chunk without its vector.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UnembeddedChunk {
    pub content: String,
    pub start: usize,
    pub end: usize,
    pub headings: Vec<String>,
}

/// Cuts `text` into chunks of at most `size` characters (default: as configured), and of at most the
/// model's window.
pub(super) fn cut(
    context: &ChromaContext,
    text: &str,
    size: Option<usize>,
) -> Result<Vec<UnembeddedChunk>, Refusal> {
    let chunking = chunking(context, text, size);
    let format = if context.options.markdown { Format::Markdown } else { Format::Plain };
    let mut cuts = Vec::new();
    // A blank chunk can never be a hit.
    for chunk in chunks(text, "", chunking, format).filter(|chunk| !chunk.is_blank()) {
        if cuts.len() == MOST {
            return Err(too_many(text, chunking));
        }
        cuts.push(UnembeddedChunk {
            content: chunk.content.to_owned(),
            start: chunk.start_pos,
            end: chunk.end_pos,
            headings: chunk.headings.iter().map(ToString::to_string).collect(),
        });
    }
    Ok(cuts)
}

fn chunking(context: &ChromaContext, text: &str, size: Option<usize>) -> Chunking {
    let usual = context.options.chunking;
    let wanted = match size {
        Some(size) if size > usual.size() => {
            // The overlap grows in proportion.
            Chunking::new(size, usual.overlap() * size / usual.size()).unwrap_or(usual)
        }
        Some(size) => usual.at_most(size),
        None => usual,
    };
    context.embedding.window().chunking(wanted, text)
}

fn too_many(content: &str, chunking: Chunking) -> Refusal {
    let characters = content.chars().count();
    Refusal::new("invalid_argument", "content", &format!("{characters} characters"))
        .because(&format!(
            "The document has more than {MOST} chunks of at most {} characters.",
            chunking.size()
        ))
        .valid(&format!("at most {MOST} chunks"))
        .suggest("Add it in several documents, or with a larger chunk_size if the model reads that much.")
}
