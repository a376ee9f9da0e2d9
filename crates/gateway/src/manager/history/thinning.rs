//! Makes room in the files of the history: the principals with most calls lose their oldest ones.
//!
//! Invariants: after it no principal has more calls than [`level`] leaves to each, and a principal with fewer keeps all of
//! them. Files get smaller and fewer: the rest of one is appended to the file before it, if both are of one day and fit
//! into one. If the process ends meanwhile, a call may be in two files, under one number.
//!
//! Not here: when room is needed (`files`).

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Ended;
use super::segment::{self, is_same_day, modified};
use runtime::private_file;

/// How many calls a file has of each principal, by the hash of its name.
type CallCounts = HashMap<u64, usize>;

/// How many calls each file has of each principal: at most one entry for a call.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    files: HashMap<PathBuf, CallCounts>,
    /// Random, so that nobody chooses a name with the hash of another one.
    hasher: RandomState,
}

impl Tallies {
    fn owner(&self, principal: Option<&str>) -> u64 {
        self.hasher.hash_one(principal)
    }

    /// Counts the calls of the file at `path`, if that is not known.
    pub(super) fn read(&mut self, path: &Path) {
        if !self.files.contains_key(path) {
            // A file that cannot be read now is tried again.
            let Ok(text) = segment::read(path) else { return };
            let mut tally = CallCounts::new();
            for (_, line) in segment::lines(&text) {
                *tally.entry(self.owner(line.principal.as_deref())).or_default() += 1;
            }
            self.files.insert(path.to_owned(), tally);
        }
    }

    /// Counts `calls`, which were appended to the file at `path`.
    pub(super) fn add(&mut self, path: &Path, calls: &[Ended]) {
        for ended in calls {
            let owner = self.owner(ended.call.principal.as_deref());
            if let Some(tally) = self.files.get_mut(path) {
                *tally.entry(owner).or_default() += 1;
            }
        }
    }

    /// Has the calls of the file at `path` counted again.
    pub(super) fn forget(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// Forgets files that are not among `paths`, which are sorted.
    pub(super) fn retain(&mut self, paths: &[PathBuf]) {
        self.files.retain(|path, _| paths.binary_search(path).is_ok());
    }

    /// How many calls all files have.
    pub(super) fn sum(&self) -> usize {
        self.files.values().flat_map(HashMap::values).sum()
    }

    /// How many calls each principal has to lose, so that `most` are left in sum.
    fn excess(&self, most: usize) -> CallCounts {
        let mut excess = CallCounts::new();
        for (owner, count) in self.files.values().flatten() {
            *excess.entry(*owner).or_default() += count;
        }
        let level = level(excess.values().copied().collect(), most);
        excess.retain(|_, count| {
            *count = count.saturating_sub(level);
            *count > 0
        });
        excess
    }
}

/// The most calls that each principal may keep, so that `most` are left of `counts` in sum.
fn level(mut counts: Vec<usize>, most: usize) -> usize {
    counts.sort_unstable();
    let (mut left, mut others) = (most, counts.len());
    for count in counts {
        if count * others > left {
            return left / others;
        }
        left -= count;
        others -= 1;
    }
    usize::MAX
}

/// Removes calls from the files `paths`, the oldest first, until all files have at most `most` calls. A file has at most
/// `most_lines`, and bytes for so many. A file that cannot be changed is removed; one that cannot be read stays as it is.
pub(super) fn thin(paths: &[PathBuf], tallies: &mut Tallies, (most, most_lines): (usize, usize)) {
    let mut excess = tallies.excess(most);
    let mut before: Option<&PathBuf> = None;
    for path in paths {
        if excess.is_empty() {
            return;
        }
        let Some(tally) = tallies.files.get(path) else {
            before = None;
            continue;
        };
        if !tally.keys().any(|owner| excess.contains_key(owner)) {
            before = Some(path);
            continue;
        }
        // A file that cannot be read has calls of everybody.
        let Ok(text) = segment::read(path) else {
            before = None;
            continue;
        };
        let (rest, left) = without(&text, tallies, &mut excess);
        let count = |path: &PathBuf| tallies.files.get(path).map_or(0, |tally| tally.values().sum());
        let lines: usize = left.values().sum();
        let has_room = |before: &PathBuf| {
            let bytes = fs::symlink_metadata(before).map_or(u64::MAX, |found| found.len());
            count(before) + lines <= most_lines
                && bytes.saturating_add(rest.len() as u64) <= segment::most_bytes(most_lines)
        };
        let room = before.filter(|before| has_room(before) && follows(before, path, &rest));
        let target = room.unwrap_or(path);
        let is_written = lines > 0 && write(path, target, &rest).is_ok();
        tallies.files.remove(path);
        if !is_written || target != path {
            let _ = fs::remove_file(path);
        }
        if is_written {
            let tally = tallies.files.entry(target.clone()).or_default();
            for (owner, count) in left {
                *tally.entry(owner).or_default() += count;
            }
            before = Some(target);
        }
    }
}

/// Returns the lines of `text` without the oldest ones that are in `excess`, and how many each principal has.
fn without(text: &[u8], tallies: &Tallies, excess: &mut CallCounts) -> (Vec<u8>, CallCounts) {
    let (mut rest, mut left) = (Vec::new(), CallCounts::new());
    for (text, line) in segment::lines(text).rev() {
        let owner = tallies.owner(line.principal.as_deref());
        if let Some(count) = excess.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                excess.remove(&owner);
            }
            continue;
        }
        *left.entry(owner).or_default() += 1;
        rest.extend_from_slice(text);
        rest.push(b'\n');
    }
    (rest, left)
}

/// Whether the lines `rest` of the file at `path` may follow those of the file `before`: they are of its day, and not older.
fn follows(before: &Path, path: &Path, rest: &[u8]) -> bool {
    let of_day = segment::first_id(before).zip(segment::first_id(path));
    if !of_day.is_some_and(|(before, path)| is_same_day(before, path)) {
        return false;
    }
    let before = segment::read(before).unwrap_or_default();
    let last = segment::lines(&before).next().map(|(_, line)| line.at);
    let first = segment::lines(rest).next_back().map(|(_, line)| line.at);
    last.zip(first).is_some_and(|(last, first)| last <= first)
}

/// Writes `rest`, the lines that are left of the file at `path`: to `target`, the file before it, or in its place. The time
/// of the last change stays that of the calls.
fn write(path: &Path, target: &Path, rest: &[u8]) -> io::Result<()> {
    let changed = modified(path);
    if target == path {
        private_file::replace(path, rest)?;
    } else {
        private_file::append(target)?.write_all(rest)?;
    }
    match changed {
        Some(changed) => File::options().append(true).open(target)?.set_modified(changed),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file whose first call has the number `id`, with the calls of `principals`. Each has a tool of `size` bytes.
    fn file(folder: &Path, id: u64, principals: &[&str], size: usize) -> PathBuf {
        let path = segment::path(folder, id);
        let tool = "t".repeat(size);
        let line = |(at, principal): (u64, &&str)| {
            let id = id + at;
            format!(
                "{{\"id\":{id},\"at\":\"{id:03}\",\"server\":\"s\",\"tool\":\"{tool}\",\"principal\":\"{principal}\",\
                 \"outcome\":\"ok\"}}\n"
            )
        };
        let text: String = (0..).zip(principals).map(line).collect();
        private_file::append(&path).and_then(|mut file| file.write_all(text.as_bytes())).expect("written");
        path
    }

    /// Thins two files with calls of a noisy principal and of a quiet one, after `change`. Returns which of them are left.
    fn left(size: usize, change: impl Fn(&Path)) -> [bool; 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = [1, 5].map(|id| file(folder.path(), id, &["noisy", "noisy", "noisy", "quiet"], size));
        let mut tallies = Tallies::default();
        for path in &paths {
            tallies.read(path);
        }
        change(&paths[1]);
        thin(&paths, &mut tallies, (4, 6));
        paths.map(|path| path.exists())
    }

    #[test]
    fn files_become_one_if_their_lines_and_bytes_fit_into_it() {
        assert_eq!(left(10, |_| ()), [true, false]);
        assert_eq!(left(3_000, |_| ()), [true, true]);
    }

    #[test]
    fn file_that_cannot_be_read_stays() {
        let grow = |path: &Path| {
            let file = File::options().append(true).open(path).expect("opened");
            file.set_len(65 << 20).expect("longer than is read");
        };
        assert_eq!(left(10, grow), [true, true]);
    }

    #[test]
    fn level_leaves_as_much_as_it_can_and_takes_from_those_with_most() {
        for (counts, most, expected) in [
            (vec![5, 500], 80, 75),
            (vec![500], 80, 80),
            (vec![100, 100, 100, 100], 80, 20),
            (vec![1, 2, 3, 100, 200], 106, 50),
            (vec![1, 2], 3, usize::MAX),
            (vec![3, 3, 3], 2, 0),
        ] {
            assert_eq!(level(counts.clone(), most), expected, "{counts:?}");
            let left: usize = counts.iter().map(|count| count.min(&expected)).sum();
            assert!(left <= most, "{counts:?}");
        }
    }
}
