//! Tests of the cache of vectors: which texts the provider gets.

use super::super::testing::{Counting, soon, texts, vector};
use super::*;
use runtime::store::Config;

fn cached(inner: &Arc<Counting>, place: &str, store: &Store) -> Cached {
    let inner: Arc<dyn Embedding> = Arc::<Counting>::clone(inner);
    Cached::new(inner, place, store)
}

#[tokio::test]
async fn only_what_is_missing_is_embedded_at_once_and_each_once() {
    let (inner, store) = (Counting::of(3), Store::open(&Config::default()));
    let cached = cached(&inner, "here", &store);
    let first = texts(&["a", "bb", "a"]);
    let vectors = cached.embed(&first, soon()).await.expect("vectors");
    assert_eq!(vectors, ["a", "bb", "a"].map(|text| vector(text, 3)));
    let vectors = cached.embed(&texts(&["dddd", "bb", "ccc", "a", "dddd"]), soon()).await.expect("vectors");
    assert_eq!(vectors, ["dddd", "bb", "ccc", "a", "dddd"].map(|text| vector(text, 3)));
    cached.embed(&first, soon()).await.expect("vectors");
    assert_eq!(inner.requested(), [texts(&["a", "bb"]), texts(&["dddd", "ccc"])]);
    assert_eq!(cached.dimension(), Some(3));
    assert!(cached.embed(&[], soon()).await.expect("none").is_empty());
}

#[tokio::test]
async fn another_place_is_another_model() {
    let (inner, store) = (Counting::of(3), Store::open(&Config::default()));
    for place in ["here", "there", "here"] {
        cached(&inner, place, &store).embed(&texts(&["a"]), soon()).await.expect("vectors");
    }
    assert_eq!(inner.requested().len(), 2);
}

#[tokio::test]
async fn vector_of_one_model_is_not_returned_for_another() {
    let store = Store::open(&Config::default());
    let other = Arc::new(Counting { model: "other", dimension: 3.into(), ..Counting::default() });
    for inner in [&Counting::of(3), &other] {
        cached(inner, "here", &store).embed(&texts(&["a"]), soon()).await.expect("vectors");
        assert_eq!(inner.requested().len(), 1);
    }
}

#[tokio::test]
async fn cached_vectors_of_a_changed_model_are_dropped() {
    let (inner, store) = (Counting::of(3), Store::open(&Config::default()));
    cached(&inner, "here", &store).embed(&texts(&["a", "bb"]), soon()).await.expect("vectors");
    *inner.dimension.lock().expect("lock") = 5;
    // A second start of the program, without a known dimension.
    let after = cached(&inner, "here", &store);
    let vectors = after.embed(&texts(&["a", "ccc"]), soon()).await.expect("vectors");
    assert_eq!(vectors, ["a", "ccc"].map(|text| vector(text, 5)));
    assert_eq!(after.embed(&texts(&["bb"]), soon()).await.expect("vectors"), [vector("bb", 5)]);
    assert_eq!(inner.requested()[1..], [texts(&["ccc"]), texts(&["a", "ccc"]), texts(&["bb"])]);
    *inner.dimension.lock().expect("lock") = 4;
    let error = after.embed(&texts(&["eeeee"]), soon()).await.expect_err("another dimension");
    assert_eq!(error, Error::Dimension { model: "m".into(), expected: 5, found: 4 });
}

#[tokio::test]
async fn uncached_vectors_are_neither_read_nor_stored_and_a_changed_model_is_forgotten() {
    let (inner, store) = (Counting::of(3), Store::open(&Config::default()));
    let cached = cached(&inner, "here", &store);
    for _ in 0..2 {
        assert_eq!(cached.embed_uncached(&texts(&["a"]), soon()).await.expect("vectors"), [vector("a", 3)]);
    }
    cached.embed(&texts(&["a", "bb"]), soon()).await.expect("vectors");
    assert_eq!(inner.requested(), [texts(&["a"]), texts(&["a"]), texts(&["a", "bb"])]);
    cached.forget_cached().await;
    cached.embed(&texts(&["bb"]), soon()).await.expect("vectors");
    assert_eq!(inner.requested()[3..], [texts(&["bb"])]);
}

#[test]
fn only_nearly_the_same_direction_is_the_same() {
    use super::super::is_same_direction as same;
    assert!(same(&[1.0, 0.0], &[3.0, 0.01]));
    for (one, other) in [
        (&[1.0, 0.0][..], &[1.0, 0.2][..]),
        (&[1.0], &[-1.0]),
        (&[0.0], &[0.0]),
        (&[f32::NAN], &[f32::NAN]),
        (&[1.0], &[1.0, 0.0]),
    ] {
        assert!(!same(one, other), "{one:?} {other:?}");
    }
}

#[tokio::test]
async fn foreign_data_in_the_cache_is_not_a_vector() {
    let (inner, store) = (Counting::of(3), Store::open(&Config::default()));
    let cached = cached(&inner, "here", &store);
    for (text, bytes) in [("a", &b"12345"[..]), ("b", b""), ("c", &f32::NAN.to_le_bytes())] {
        let value = Bytes::copy_from_slice(bytes);
        store.fetch(&cached.key(text), KEPT, ready(Ok::<_, Absent>(value))).await.expect("kept");
        assert_eq!(cached.embed(&texts(&[text]), soon()).await.expect("a vector"), [vector(text, 3)]);
    }
    assert_eq!(decode(&encode(&[1.5, -0.0])), Some(vec![1.5, -0.0]));
}
