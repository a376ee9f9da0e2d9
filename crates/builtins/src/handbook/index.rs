//! The full-text index: one entry per section, ranked by BM25.
//!
//! The index is in memory and contains only numbers of documents and sections. Invariant: a [`Searcher`] sees
//! one state of the index, even if the index is written meanwhile. It is rebuilt at each
//! start: 5,000 documents take a second.
//!
//! Not here: building a query (`query`), and the form of a hit (`search`).

use tantivy::collector::TopDocs;
use tantivy::columnar::Column;
use tantivy::merge_policy::LogMergePolicy;
use tantivy::query::{Bm25StatisticsProvider, Query};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STRING, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, Score, Searcher, TantivyDocument, Term};

use super::document::{Document, folder_of_index, without_ending};
use super::neighbours::{self, Candidate, WordPair};
use super::words;

const WORDS: &str = "words";
/// Memory of the writer, in bytes. When it is full, the writer makes a segment.
const WRITER_BYTES: usize = 64 * 1024 * 1024;

/// Weights of heading, place and text.
const WEIGHTS: [Score; 3] = [2.4, 1.6, 1.0];
/// Sections that are ranked in detail: the best by their words alone.
const CANDIDATES: usize = 100;

/// Fields of a section in the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    /// Heading of the section.
    pub heading: Field,
    /// Headings above it, the title of its document, and the names of its file and folders.
    pub place: Field,
    /// Words of the section.
    pub body: Field,
    /// Every path that contains the section: folders, document, sections.
    pub scope: Field,
    document: Field,
    section: Field,
}

impl Fields {
    /// Returns heading, place and text, in this order.
    pub(super) const fn with_words(&self) -> [Field; 3] {
        [self.heading, self.place, self.body]
    }

    /// Returns the same fields, each with its weight.
    pub(super) fn weighted(&self) -> [(Field, Score); 3] {
        std::array::from_fn(|at| (self.with_words()[at], WEIGHTS[at]))
    }
}

/// A query, and the pairs that raise the score of a section.
pub(super) struct IndexQuery {
    /// The query that finds sections.
    pub query: Box<dyn Query>,
    /// Words that are adjacent in the query text.
    pub pairs: Vec<WordPair>,
}

/// A section that matches a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Match {
    /// Serial number of the document.
    pub document: u64,
    /// Number of the section in the document.
    pub section: usize,
    /// BM25 score; larger is better.
    pub score: Score,
}

impl Match {
    /// Whether both are the same section.
    pub(super) const fn is_of(&self, other: &Self) -> bool {
        self.document == other.document && self.section == other.section
    }
}

/// The index with its reader.
pub(super) struct SearchIndex {
    index: Index,
    reader: IndexReader,
    fields: Fields,
}

/// Changes that become visible together.
pub(super) struct Changes {
    writer: IndexWriter,
    reader: IndexReader,
    fields: Fields,
}

impl SearchIndex {
    /// Makes an empty index.
    pub(super) fn new() -> tantivy::Result<Self> {
        let (schema, fields) = schema();
        let mut index = Index::create_in_ram(schema);
        let tokenizers = TokenizerManager::default();
        tokenizers.register(WORDS, words::analyzer());
        index.set_tokenizers(tokenizers);
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { index, reader, fields })
    }

    /// Begins a set of changes. The threads of the writer live as long as the set.
    pub(super) fn change(&self) -> tantivy::Result<Changes> {
        let writer: IndexWriter = self.index.writer_with_num_threads(1, WRITER_BYTES)?;
        let mut policy = LogMergePolicy::default();
        policy.set_del_docs_ratio_before_merge(0.3);
        writer.set_merge_policy(Box::new(policy));
        Ok(Changes { writer, reader: self.reader.clone(), fields: self.fields })
    }

    /// Returns the current state.
    pub(super) fn state(&self) -> State {
        State { searcher: self.reader.searcher(), fields: self.fields }
    }
}

impl Changes {
    /// Adds a document. `bodies` are the words of its sections.
    pub(super) fn add(&self, document: &Document, bodies: &[String]) -> tantivy::Result<()> {
        for (number, body) in bodies.iter().enumerate() {
            self.writer.add_document(self.entry(document, number, body))?;
        }
        Ok(())
    }

    /// Removes a document.
    pub(super) fn remove(&self, serial: u64) {
        self.writer.delete_term(Term::from_field_u64(self.fields.document, serial));
    }

    /// Makes the changes visible to new searchers.
    pub(super) fn commit(mut self) -> tantivy::Result<()> {
        self.writer.commit()?;
        self.writer.wait_merging_threads()?;
        self.reader.reload()
    }

    fn entry(&self, document: &Document, number: usize, body: &str) -> TantivyDocument {
        let fields = self.fields;
        let section = &document.sections[number];
        let mut entry = TantivyDocument::new();
        entry.add_text(fields.heading, &section.heading);
        entry.add_text(fields.place, document.trail(number).join(" "));
        entry.add_text(fields.place, &document.path);
        entry.add_text(fields.body, body);
        for scope in scopes(document, number) {
            entry.add_text(fields.scope, scope);
        }
        entry.add_u64(fields.document, document.serial);
        entry.add_u64(fields.section, number as u64);
        entry
    }
}

/// Returns every path that contains the section, from the folder down. The path of the file identifies its
/// document. The path without extension is added unless it could be another file. A folder may share it.
fn scopes(document: &Document, number: usize) -> Vec<String> {
    let (file, path) = (document.file_path.as_str(), document.path.as_str());
    let mut scopes = vec![file.to_owned()];
    scopes.extend((without_ending(path) == path).then(|| path.to_owned()));
    scopes.extend(path.match_indices('/').map(|(end, _)| path[..end].to_owned()));
    scopes.extend(folder_of_index(path).filter(|f| !path.starts_with(&format!("{f}/"))).map(str::to_owned));
    scopes.extend(document.lineage(number).filter(|&at| at > 0).map(|at| document.section_of(file, at)));
    scopes
}

/// Whether a section of the document may be in `scope`. Cheaper than checking each section.
pub(super) fn touches(document: &Document, scope: &str) -> bool {
    let is_within = |inner: &str, outer: &str, mark: char| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(mark))
    };
    is_within(&document.path, scope, '/')
        || is_within(scope, &document.file_path, '#')
        || folder_of_index(&document.path) == Some(scope)
}

/// Whether the section is in `scope`.
pub(super) fn is_in(document: &Document, number: usize, scope: &str) -> bool {
    scopes(document, number).iter().any(|own| own == scope)
}

/// One state of the index.
#[derive(Clone)]
pub(super) struct State {
    searcher: Searcher,
    /// The fields of the index.
    pub fields: Fields,
}

impl State {
    /// Whether any section has this word.
    pub(super) fn is_known(&self, word: &str) -> tantivy::Result<bool> {
        Ok(self.count(word)? > 0)
    }

    /// Returns the inverse document frequency of BM25: the fewer sections have a word, the larger it is.
    #[allow(clippy::cast_precision_loss)] // counts of sections, far below 2^24
    pub(super) fn rarity(&self, word: &str) -> tantivy::Result<Score> {
        let (all, with) = (self.searcher.num_docs() as Score, self.count(word)? as Score);
        Ok((((all - with).max(0.0) + 0.5) / (with + 0.5)).ln_1p())
    }

    /// Counts the sections with a word, in the field where most sections have it.
    fn count(&self, word: &str) -> tantivy::Result<u64> {
        let count = |field| self.searcher.doc_freq(&Term::from_field_text(field, word));
        self.fields.with_words().map(count).into_iter().try_fold(0, |most, count| Ok(most.max(count?)))
    }

    /// Returns the matching sections, best first.
    pub(super) fn search(&self, requested: &IndexQuery) -> tantivy::Result<Vec<Match>> {
        let best = TopDocs::with_limit(CANDIDATES).order_by_score();
        let found = self.searcher.search_with_statistics_provider(requested.query.as_ref(), &best, self)?;
        let mut candidates: Vec<Candidate> =
            found.into_iter().map(|(score, address)| Candidate { address, score }).collect();
        candidates.sort_by_key(|candidate| candidate.address);
        let mut matches = Vec::with_capacity(candidates.len());
        for of_segment in candidates.chunk_by_mut(|a, b| a.address.segment_ord == b.address.segment_ord) {
            let segment = self.searcher.segment_reader(of_segment[0].address.segment_ord);
            let mut of_segment: Vec<&mut Candidate> = of_segment.iter_mut().collect();
            neighbours::reward(segment, self.fields.weighted(), &requested.pairs, &mut of_segment)?;
            let columns = segment.fast_fields();
            let (documents, sections) = (columns.u64("document")?, columns.u64("section")?);
            matches.extend(of_segment.into_iter().map(|candidate| {
                let value = |column: &Column| column.first(candidate.address.doc_id).unwrap_or_default();
                let section = usize::try_from(value(&sections)).unwrap_or_default();
                Match { document: value(&documents), section, score: candidate.score }
            }));
        }
        matches.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(matches)
    }
}

/// Makes the rarity of a word equal in all fields. A word that every text has tells little, even if few
/// headings have it.
impl Bm25StatisticsProvider for State {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.searcher.total_num_tokens(field)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.searcher.total_num_docs()
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        match term.value().as_str() {
            Some(word) if self.fields.with_words().contains(&term.field()) => self.count(word),
            _ => self.searcher.doc_freq(term),
        }
    }
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let words = TextOptions::default().set_indexing_options(
        TextFieldIndexing::default()
            .set_tokenizer(WORDS)
            .set_index_option(IndexRecordOption::WithFreqsAndPositions),
    );
    let fields = Fields {
        heading: schema.add_text_field("heading", words.clone()),
        place: schema.add_text_field("place", words.clone()),
        body: schema.add_text_field("body", words),
        scope: schema.add_text_field("scope", STRING),
        document: schema.add_u64_field("document", INDEXED | FAST),
        section: schema.add_u64_field("section", FAST),
    };
    (schema.build(), fields)
}
