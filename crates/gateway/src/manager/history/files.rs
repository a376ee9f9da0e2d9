//! The files of the history of one configuration file, in a folder of their own.
//!
//! Invariants: one process writes. The files have at most [`Config::calls`] calls and [`segment::most_bytes`] for them in
//! sum, and none is kept longer than [`Config::days`] and one day. A file ends when the clock goes back, so the lines of one
//! file have the order of time too. Without room for a call, those principals lose their oldest calls that have most
//! (`thinning`), so nobody loses a call because another one makes many.
//!
//! All functions may block.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::segment::{self, Segment};
use super::thinning::{self, Tallies};
use super::{Config, Ended, micros};
use crate::manager::live_events::CallText;
use runtime::private_file;

/// The files of many calls are short, so that a search holds little of them in memory.
const MOST_LINES: usize = 4_096;
/// The least files that the calls are divided into. So many calls make room at a time.
const FEWEST: usize = 8;
/// A day.
const DAY: Duration = Duration::from_hours(24);
/// How far the clock may go back within one file.
const SLACK: Duration = Duration::from_secs(1);
/// The name beside which the lock is.
const LOCK: &str = "history";

/// The files.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) folder: PathBuf,
    /// Held while this process writes.
    lock: Option<File>,
    current: Option<Segment>,
    /// How many calls each principal has in the files, as far as it is known.
    tallies: Tallies,
    text: CallText,
    /// Whether a failure was returned, and writing did not succeed since.
    has_failed: bool,
}

/// The result of writing calls.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// How many of the first calls were written, or are not wanted.
    pub(super) calls: usize,
    /// The first failure of several.
    pub(super) failure: Option<io::Error>,
}

impl Files {
    /// The files in `folder`. Nothing is read or made yet.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            lock: None,
            current: None,
            tallies: Tallies::default(),
            text: CallText::default(),
            has_failed: false,
        }
    }

    /// The largest number in the files, or one that is not smaller.
    pub(super) fn last_id(&self) -> u64 {
        let Some(newest) = list(&self.folder).pop() else { return 0 };
        let text = segment::read(&newest).unwrap_or_default();
        let last = segment::lines(&text).next().map(|(_, line)| line.id);
        last.or_else(|| segment::first_id(&newest)).unwrap_or_default()
    }

    /// Writes calls, and removes files that are not wanted any more.
    pub(super) fn write(&mut self, queue: &[Ended], config: Config) -> Written {
        let mut written = Written::default();
        if config.calls == 0 || config.days == 0 {
            self.current = None;
            self.clean(config);
            return Written { calls: queue.len(), failure: None };
        }
        let result = self.append_all(queue, config, &mut written.calls);
        self.clean(config);
        match result {
            Ok(()) => self.has_failed = self.has_failed && queue.is_empty(),
            Err(error) => {
                // A line that was cut off is ended when the file is opened again.
                if let Some(current) = self.current.take() {
                    self.tallies.forget(&current.path);
                }
                if !std::mem::replace(&mut self.has_failed, true) {
                    written.failure = Some(error);
                }
            }
        }
        written
    }

    fn append_all(&mut self, mut queue: &[Ended], config: Config, count: &mut usize) -> io::Result<()> {
        if queue.is_empty() {
            return Ok(());
        }
        self.lock()?;
        let most_lines = lines_of_file(config);
        while let Some(first) = queue.first() {
            let now = first.at;
            let segment = match self.current.take() {
                Some(current) if current.has_room(now, most_lines) => current,
                _ => self.next(first.id, now, most_lines)?,
            };
            self.tallies.read(&segment.path);
            let segment = self.current.insert(segment);
            self.text.clear();
            let mut lines = 0;
            for ended in queue {
                let is_full = segment.lines + lines >= most_lines
                    || segment.bytes + self.text.bytes().len() as u64 >= segment::most_bytes(most_lines);
                if lines > 0 && (is_full || !segment.fits(ended.at)) {
                    break;
                }
                segment::print(&mut self.text, ended);
                segment.last = ended.at;
                lines += 1;
            }
            segment.append(self.text.bytes(), lines)?;
            self.tallies.add(&segment.path, &queue[..lines]);
            *count += lines;
            queue = &queue[lines..];
        }
        Ok(())
    }

    /// Opens the newest file if it has room, else a new one that begins with the call `id`.
    fn next(&self, id: u64, now: SystemTime, most_lines: usize) -> io::Result<Segment> {
        // A file that cannot be opened is left as it is.
        let newest = list(&self.folder).pop().and_then(|path| Segment::open(path, now).ok());
        match newest.filter(|segment| segment.has_room(now, most_lines)) {
            Some(newest) => Ok(newest),
            None => Segment::open(segment::path(&self.folder, id), now),
        }
    }

    /// Locks the files for this process.
    fn lock(&mut self) -> io::Result<()> {
        if self.lock.is_none() {
            let lock = private_file::open_lock(&self.folder.join(LOCK))?;
            lock.try_lock().map_err(|error| match error {
                fs::TryLockError::WouldBlock => {
                    io::Error::other("another gateway of the same configuration file writes them")
                }
                fs::TryLockError::Error(error) => error,
            })?;
            self.lock = Some(lock);
        }
        Ok(())
    }

    /// Removes the files that are too old or too many. A file that cannot be removed is tried again.
    fn clean(&mut self, config: Config) {
        let files = list(&self.folder);
        if files.is_empty() || self.lock().is_err() {
            return;
        }
        let oldest = SystemTime::now().checked_sub(DAY * config.days).unwrap_or(UNIX_EPOCH);
        let is_wanted = config.calls > 0 && config.days > 0;
        let mut remaining = Vec::new();
        for path in files {
            let is_current = self.current.as_ref().is_some_and(|current| current.path == path);
            let is_old = || segment::modified(&path).is_some_and(|modified| modified < oldest);
            if is_current || is_wanted && !is_old() {
                self.tallies.read(&path);
                remaining.push(path);
            } else {
                let _ = fs::remove_file(path);
            }
        }
        self.tallies.retain(&remaining);
        if self.tallies.sum() > config.calls {
            // The newest file is written.
            remaining.pop();
            let most_lines = lines_of_file(config);
            thinning::thin(&remaining, &mut self.tallies, (config.calls - most_lines, most_lines));
        }
    }
}

impl Segment {
    /// Whether a call that ended at `now` may be appended.
    fn has_room(&self, now: SystemTime, most_lines: usize) -> bool {
        self.lines < most_lines && self.bytes < segment::most_bytes(most_lines) && self.fits(now)
    }

    /// Whether a call that ended at `at` is of the day of the file, and not before its last one.
    fn fits(&self, at: SystemTime) -> bool {
        at + SLACK >= self.last && segment::is_same_day(micros(at), micros(self.last))
    }
}

/// How many calls a file has. All files together have at most the configured number.
fn lines_of_file(config: Config) -> usize {
    (config.calls / FEWEST).clamp(1, MOST_LINES)
}

/// The files in `folder`, the oldest first.
pub(super) fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| segment::first_id(path).is_some()).collect();
    files.sort_unstable();
    files
}
