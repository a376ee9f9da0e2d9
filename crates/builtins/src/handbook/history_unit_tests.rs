//! Tests of dates from a partly read git log.

use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::handbook::document::Origin;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Makes a document whose file was written at time 900.
fn document(path: &str, text: &str) -> Document {
    let origin =
        Origin { serial: 1, file_path: path.to_owned(), modified: at(900), blob: Blob::of(text.as_bytes()) };
    Document::parse(origin, text.to_owned()).0
}

#[test]
fn what_was_edited_since_keeps_its_own_time_where_the_history_was_not_read_to_its_end() {
    const A: &str = "78981922613b2afb6025042ff6bd878ac1994e85"; // of `a\n`
    let [found, unreached, edited] = [("found.md", "a\n"), ("unreached.md", "a\n"), ("edited.md", "a\n")]
        .map(|(path, text)| document(path, text));
    let committed = [&found, &unreached].map(|document| (document.file_path.clone(), document.blob));
    let log = format!("\x01500\n:100644 100644 {A} {A} M\0found.md\0");
    let dates = |is_all| {
        let mut reader = LogReader::new(committed.clone().into());
        assert!(reader.take(log.as_bytes()), "one is left");
        Dates::of_log(reader, is_all)
    };
    let cut = dates(false);
    assert_eq!(cut.of(&found), Modified { at: at(500), is_committed: true });
    assert_eq!(
        cut.of(&unreached),
        Modified { at: at(500), is_committed: false },
        "no later than what was read"
    );
    assert_eq!(cut.of(&edited), Modified { at: at(900), is_committed: false }, "it was not committed");
    let again = document("unreached.md", "b\n");
    assert_eq!(cut.of(&again), Modified { at: at(900), is_committed: false }, "nor was this");
    assert_eq!(dates(true).of(&unreached), Modified { at: at(900), is_committed: false });
}
