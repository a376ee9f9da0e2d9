//! Tests of `metrics`: what it counts, and how often the text is made.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn gzip_is_sent_to_those_that_take_it() {
    let accepts = |values: &[&'static str]| {
        let headers = values.iter().map(|value| (ACCEPT_ENCODING, HeaderValue::from_static(value)));
        accepts_gzip(&headers.collect())
    };
    for fine in [&["gzip"][..], &["deflate, GZIP;q=0.5"], &["br", "gzip"], &["*"], &["*;q=0, gzip"]] {
        assert!(accepts(fine), "{fine:?}");
    }
    for plain in [&[][..], &["identity"], &["gzip;q=0"], &["*, gzip;q=0"], &["*;q=0"], &["gzipped"]] {
        assert!(!accepts(plain), "{plain:?}");
    }
}

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
    assert_eq!(text.only(&["b", "a_total"]), format!("{a}# HELP b About b.\n# TYPE b gauge\nb 3\n# EOF\n"));
    assert_eq!(text.only(&["a"]), "# EOF\n");
}

#[tokio::test(start_paused = true)]
async fn a_text_that_cannot_be_made_is_tried_again() {
    let metrics = MetricsText::default();
    assert_eq!(metrics.fetch(|| None).await, None);
    let text = || Text::new("text".to_owned());
    assert_eq!(metrics.fetch(text).await, text());
}
