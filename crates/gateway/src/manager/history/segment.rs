//! One file of the history: a call on each line, with increasing numbers.
//!
//! The name of the file is the number of its first call. Invariants: only its owner can read it, and lines are appended. A
//! line that was cut off costs itself alone.
//!
//! Not here: which files there are (`files`).

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;

use super::Ended;
use crate::manager::live_events::CallText;
use runtime::private_file;

/// The ending of the names of the files.
const ENDING: &str = "jsonl";
/// Most bytes of a file that is read. One with as many calls as fit is smaller.
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of a call on average that the files have room for.
const LINE_BYTES: u64 = 1_024;
/// A day in microseconds.
const DAY_MICROS: u64 = 24 * 60 * 60 * 1_000_000;

/// The members of a line that a search reads.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    /// The number of the call.
    pub(super) id: u64,
    #[serde(borrow)]
    pub(super) at: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) server: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) tool: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) principal: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) outcome: Cow<'a, str>,
}

/// Appends the line of a call, as somebody who may see all of it reads it.
pub(super) fn print(text: &mut CallText, ended: &Ended) {
    text.put("{\"id\":");
    text.json(&ended.id);
    text.put(",");
    text.call(ended.at, &ended.call, ended.call.end.get(), true);
    text.put("}\n");
}

/// The number of the first call of the file at `path`; none if it is not a file of the history.
pub(super) fn first_id(path: &Path) -> Option<u64> {
    path.extension().filter(|ending| *ending == ENDING)?;
    path.file_stem()?.to_str()?.parse().ok()
}

/// The path of the file that begins with the call `id`. Names have the order of their numbers.
pub(super) fn path(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("{id:020}.{ENDING}"))
}

/// The bytes after which a file of at most `most_lines` calls has no room for a further one.
pub(super) fn most_bytes(most_lines: usize) -> u64 {
    LINE_BYTES * most_lines as u64
}

/// Whether two times, in microseconds, are of one day.
pub(super) fn is_same_day(one: u64, other: u64) -> bool {
    one / DAY_MICROS == other / DAY_MICROS
}

/// When the file was written last.
pub(super) fn modified(path: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(path).and_then(|found| found.modified()).ok()
}

/// Reads the file at `path`.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    private_file::read(path, MOST_BYTES)
}

fn count_lines(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n').count().saturating_sub(1)
}

/// The lines of `text` that are whole, the last one first.
pub(super) fn lines(text: &[u8]) -> impl DoubleEndedIterator<Item = (&[u8], Line<'_>)> {
    let whole = text.rsplit(|byte| *byte == b'\n');
    whole.filter_map(|line| Some((line, serde_json::from_slice(line).ok()?)))
}

/// The file that calls are appended to.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    file: File,
    pub(super) lines: usize,
    pub(super) bytes: u64,
    /// When its last call ended.
    pub(super) last: SystemTime,
}

impl Segment {
    /// Opens the file at `path` for further calls, or makes it.
    pub(super) fn open(path: PathBuf, now: SystemTime) -> io::Result<Self> {
        let mut file = private_file::append(&path)?;
        let found = file.metadata()?;
        let (mut lines, mut bytes) = (0, found.len());
        let last = if bytes > 0 { found.modified()? } else { now };
        if bytes > 0 {
            let text = read(&path)?;
            lines = count_lines(&text);
            if text.last() != Some(&b'\n') {
                // The last line was cut off, and must not take the next one with it.
                file.write_all(b"\n")?;
                (lines, bytes) = (lines + 1, bytes + 1);
            }
        }
        Ok(Self { path, file, lines, bytes, last })
    }

    /// Appends `lines` lines.
    pub(super) fn append(&mut self, text: &[u8], lines: usize) -> io::Result<()> {
        self.file.write_all(text)?;
        self.lines += lines;
        self.bytes += text.len() as u64;
        Ok(())
    }
}
