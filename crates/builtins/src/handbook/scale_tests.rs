//! Tests with many documents: all of them are found, and the duration is printed. A release build uses 5,000
//! documents, a debug build fewer.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use super::fixture::*;

const DOCUMENTS: usize = if cfg!(debug_assertions) { 300 } else { 5_000 };
/// Number of searches for 40 queries.
const REPEATED: u64 = 400;
const SEARCHES: usize = if cfg!(debug_assertions) { 60 } else { 1_000 };

/// Words with the distribution of a language: the n-th word is in a text with a probability of about 1/n.
struct Language {
    state: u64,
}

impl Language {
    fn number(&mut self, below: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    fn word(&mut self) -> String {
        let rank = 20_000 / (1 + self.number(20_000));
        let spread = self.number(1 + rank / 4);
        let mut left = rank + spread + 20;
        let mut word = String::new();
        while left > 0 {
            word.push_str(
                ["ka", "lo", "mi", "ten", "sur", "ve", "dran", "pol", "ish", "or"][(left % 10) as usize],
            );
            left /= 10;
        }
        word
    }

    fn text(&mut self, words: usize) -> String {
        (0..words).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    fn document(&mut self, number: usize) -> String {
        let mut parts = vec![format!("# {} {number}\n\n{}\n", self.text(2), self.text(40))];
        for _ in 0..6 {
            parts.push(format!("## {}\n\n{}.\n\n{}\n", self.text(3), self.text(50), self.text(40)));
        }
        parts.push(format!("## Marker\n\nThe marker is unique_{number}_marker.\n"));
        parts.join("\n")
    }
}

#[tokio::test]
async fn many_documents_are_all_found_and_soon() {
    let mut language = Language { state: 7 };
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..DOCUMENTS {
        let name = format!("part{}/chapter{}/d{number}.md", number % 20, number % 7);
        write(folder.path(), &name, &language.document(number));
    }
    let started = Instant::now();
    let handbook = open(folder.path(), 100).await.expect("it opens");
    call(&handbook, "search_handbook", &json!({"query": "marker"})).await;
    let cold = started.elapsed();
    let topics = call(&handbook, "list_handbook_topics", &json!({})).await["structuredContent"].take();
    let (documents, sections) = (&topics["documents"], &topics["sections"]);
    assert_eq!((documents, &topics["skipped_files"]), (&json!(DOCUMENTS), &json!(0)));
    for number in [0, DOCUMENTS / 2, DOCUMENTS - 1] {
        let query = json!({"query": format!("where is unique_{number}_marker")});
        let answer = call(&handbook, "search_handbook", &query).await;
        let path = answer["structuredContent"]["hits"][0]["metadata"]["path"].to_string();
        assert!(path.ends_with(&format!("/d{number}#marker\"")), "{path}");
    }
    let mut times = Vec::new();
    for number in 0..SEARCHES {
        let words = 1 + number % 6;
        let query = json!({"query": language.text(words)});
        let started = Instant::now();
        call(&handbook, "search_handbook", &query).await;
        times.push(started.elapsed());
    }
    let queries: Vec<_> = (0..50).map(|_| json!({"query": language.text(4)})).collect();
    let started = Instant::now();
    join_all(queries.iter().map(|query| call(&handbook, "search_handbook", query))).await;
    let together = started.elapsed();
    let repeated = repeat(&handbook, &mut language).await;
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    eprintln!(
        "{documents} documents, {sections} sections: cold {cold:?}; search p50 {:?} p95 {:?} p99 {:?}; \
         50 at once {together:?}; {repeated}",
        at(50),
        at(95),
        at(99)
    );
}

/// Searches with a realistic distribution: a few queries often, many rarely.
async fn repeat(handbook: &super::Handbook, language: &mut Language) -> String {
    let questions: Vec<_> = (0..40).map(|_| json!({"query": language.text(3)})).collect();
    let before = handbook.cache.counts();
    let mut longest = Duration::ZERO;
    for _ in 0..REPEATED {
        let question = language.number(40).min(language.number(40));
        let started = Instant::now();
        call(handbook, "search_handbook", &questions[usize::try_from(question).expect("small")]).await;
        longest = longest.max(started.elapsed());
    }
    let after = handbook.cache.counts();
    let (hits, misses) = (after.0 - before.0, after.1 - before.1);
    assert!(misses <= 40, "each question is worked out once");
    assert_eq!(hits + misses, REPEATED);
    assert!(hits * 100 >= REPEATED * 80, "{hits} of {REPEATED} from memory");
    format!("repeated: {} % from memory, longest {longest:?}", 100 * hits / (hits + misses))
}
