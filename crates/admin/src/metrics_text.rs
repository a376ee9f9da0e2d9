//! The text of the metrics, which costs CPU time for each server.
//!
//! Invariants: it is made at most once in each [`PERIOD`], and not on a thread that serves clients. No reader gets a text
//! that is older than its request: one that asks sooner waits, and all that wait get the same text.
//! Not here: what is in it (`metrics`).

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// The least time between the beginnings of two texts.
const PERIOD: Duration = Duration::from_secs(1);

/// The last text. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct MetricsText(Arc<Mutex<Option<LastText>>>);

#[derive(Debug)]
struct LastText {
    /// When it was begun.
    started: Instant,
    /// None if it failed, or if the request for it was dropped.
    text: Option<Text>,
}

/// The text, as it is and compressed, for Prometheus asks for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) plain: Bytes,
    pub(super) gzip: Bytes,
}

impl Text {
    /// Compresses `plain`; `None` if that fails.
    pub(super) fn new(plain: String) -> Option<Self> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain.as_bytes()).ok()?;
        Some(Self { plain: plain.into(), gzip: encoder.finish().ok()?.into() })
    }

    /// The part about the metrics whose samples have one of `names`, with its descriptions and the end.
    pub(super) fn only(&self, names: &[&str]) -> String {
        let (mut part, mut described) = (String::new(), String::new());
        for line in String::from_utf8_lossy(&self.plain).lines() {
            if line == "# EOF" {
                part += line;
                part.push('\n');
            } else if line.starts_with('#') {
                if line.starts_with("# HELP") {
                    described.clear();
                }
                described.extend([line, "\n"]);
            } else {
                let end = line.find(['{', ' ']).unwrap_or(line.len());
                if names.contains(&&line[..end]) {
                    part += &std::mem::take(&mut described);
                    part.extend([line, "\n"]);
                }
            }
        }
        part
    }
}

impl MetricsText {
    /// Returns a text that was begun after this was called, and that `make` makes if nobody else does.
    pub(super) async fn fetch(&self, make: impl FnOnce() -> Option<Text> + Send + 'static) -> Option<Text> {
        let requested_at = Instant::now();
        let mut last = self.0.lock().await;
        if let Some(LastText { started, text }) = &*last {
            if *started >= requested_at && text.is_some() {
                return text.clone();
            }
            sleep_until(*started + PERIOD).await;
        }
        let started = Instant::now();
        // Recorded before, because the work continues if this future is dropped.
        *last = Some(LastText { started, text: None });
        let text = tokio::task::spawn_blocking(make).await.ok().flatten();
        *last = Some(LastText { started, text: text.clone() });
        text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_readers_get_few_texts_and_none_that_is_older_than_its_request() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let metrics = MetricsText::default();
        let make = || Text::new(MADE.fetch_add(1, Ordering::Relaxed).to_string());
        let text = |plain: &str| Text::new(plain.to_owned());
        let started = Instant::now();
        assert_eq!(metrics.fetch(make).await, text("0"));
        assert_eq!(started.elapsed(), Duration::ZERO, "the first one does not wait");
        tokio::time::advance(Duration::from_millis(1)).await;
        let many = (0..100).map(|_| metrics.fetch(make));
        let texts = futures_util::future::join_all(many).await;
        assert!(texts.iter().all(|found| *found == text("1")), "{texts:?}");
        assert_eq!(started.elapsed(), PERIOD);
        // A reader that leaves has the text made for nobody, and not again for the next one.
        drop(tokio::time::timeout(PERIOD, metrics.fetch(make)).await);
        assert!(metrics.fetch(make).await.is_some());
        assert!(started.elapsed() <= 4 * PERIOD && MADE.load(Ordering::Relaxed) <= 4);
    }

    #[test]
    fn part_has_the_samples_of_its_names_with_their_descriptions() {
        let plain = "# HELP a About a.\n# TYPE a counter\na_total{x=\"1\"} 1\na_total{x=\"2\"} 2\n\
                     # HELP b About b.\n# TYPE b gauge\nb 3\n# HELP aa About aa.\n# TYPE aa gauge\naa 4\n# EOF\n";
        let text = Text::new(plain.to_owned()).expect("compressed");
        let a = "# HELP a About a.\n# TYPE a counter\na_total{x=\"1\"} 1\na_total{x=\"2\"} 2\n";
        assert_eq!(text.only(&["a_total"]), format!("{a}# EOF\n"));
        assert_eq!(
            text.only(&["b", "a_total"]),
            format!("{a}# HELP b About b.\n# TYPE b gauge\nb 3\n# EOF\n")
        );
        assert_eq!(text.only(&["a"]), "# EOF\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_that_cannot_be_made_is_tried_again() {
        let metrics = MetricsText::default();
        assert_eq!(metrics.fetch(|| None).await, None);
        let text = || Text::new("text".to_owned());
        assert_eq!(metrics.fetch(text).await, text());
    }
}
