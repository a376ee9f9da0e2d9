//! Finding calls, the newest first, a page at a time.
//!
//! Calls in memory and in files are merged by their numbers, because a call may be in both, or in one of them only.
//! Invariants: a search reads at most [`MOST_FILES`] files. If it ends before the page is full, the next page continues
//! there. Calls wait for a search only as long as it takes to look at [`BATCH`] of them.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::files::list;
use super::ring::Owner;
use super::segment::{self, Line};
use super::{CallHistory, Ended};
use crate::manager::live_events::{CallText, date};
use auth::Principal;

/// Most files that a search reads.
const MOST_FILES: usize = 8;
/// Calls in memory that are looked at while the others wait.
const BATCH: usize = 256;
/// How calls end.
pub const OUTCOMES: [&str; 5] = ["ok", "tool_error", "rpc_error", "failed", "cancelled"];

/// Which calls are found.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Calls of this server.
    pub server: Option<String>,
    /// Calls of this tool, by its name at its server.
    pub tool: Option<String>,
    /// Calls of this principal.
    pub principal: Option<String>,
    /// Calls that ended so; any if there are none.
    pub outcomes: Vec<String>,
    /// Calls that ended at this time or later.
    pub since: Option<SystemTime>,
    /// Calls that ended before this time.
    pub until: Option<SystemTime>,
}

/// Some of the calls that were found.
#[derive(Debug)]
pub struct CallPage {
    /// Each call as a JSON object, the newest first.
    pub calls: Vec<Bytes>,
    /// The number before which the next page begins; none at the end.
    pub next: Option<u64>,
}

/// The members of a call that a search compares.
struct CallKey<'a> {
    server: &'a str,
    tool: &'a str,
    principal: Option<&'a str>,
    outcome: &'a str,
}

/// One search.
struct Search {
    viewer: Principal,
    filter: Filter,
    /// `since` and `until` as lines of files have them.
    times: [Option<String>; 2],
    before: u64,
    /// One more than fit into the page, which shows whether there is a next one.
    most: usize,
}

impl CallHistory {
    /// Returns at most `limit` calls that `viewer` may see and `filter` wants, before the number `before`.
    pub async fn search(
        self: &Arc<Self>,
        viewer: Principal,
        mut filter: Filter,
        before: Option<u64>,
        limit: usize,
    ) -> CallPage {
        let days = Duration::from_hours(24) * self.lock().config.days.max(1);
        if self.files.is_some() {
            // A file is removed up to a day later than its oldest call.
            filter.since = filter.since.max(SystemTime::now().checked_sub(days));
        }
        let times = [filter.since, filter.until].map(|at| at.map(date));
        let before = before.unwrap_or(u64::MAX);
        let search = Search { viewer, filter, times, before, most: limit + 1 };
        let permit = self.searches.acquire().await;
        let history = Arc::clone(self);
        let page = tokio::task::spawn_blocking(move || search.run(&history, limit)).await;
        drop(permit);
        // It fails only if the program ends.
        page.unwrap_or(CallPage { calls: Vec::new(), next: None })
    }
}

impl Search {
    fn run(&self, history: &CallHistory, limit: usize) -> CallPage {
        let recent = self.in_memory(history);
        let files = history.folder.as_ref().map(|folder| self.in_files(list(folder)));
        let (stored, rest) = files.unwrap_or_default();
        let mut text = CallText::default();
        let print = |ended: &Ended| {
            text.clear();
            segment::print(&mut text, ended);
            (ended.id, Bytes::copy_from_slice(text.bytes().trim_ascii_end()))
        };
        // An older call may have neighbors in a file that was not read.
        let recent = recent.iter().filter(|ended| rest.is_none_or(|rest| ended.id >= rest));
        let mut all: Vec<(u64, Bytes)> = recent.map(print).chain(stored).collect();
        all.sort_by_key(|(id, _)| Reverse(*id));
        all.dedup_by_key(|(id, _)| *id);
        let next = if all.len() > limit { all.get(limit - 1).map(|(id, _)| *id) } else { rest };
        all.truncate(limit);
        CallPage { calls: all.into_iter().map(|(_, text)| text).collect(), next }
    }

    /// The calls in memory.
    fn in_memory(&self, history: &CallHistory) -> Vec<Ended> {
        let owners: Vec<Owner> = history.lock().ring.owners().cloned().collect();
        let mut found = Vec::new();
        for owner in owners.iter().filter(|owner| self.viewer.may_see(owner.as_deref())) {
            let (mut before, mut own) = (self.before, 0);
            loop {
                let batch: Vec<Ended> =
                    history.lock().ring.before(owner, before).take(BATCH).cloned().collect();
                let Some(last) = batch.last() else { break };
                before = last.id;
                let expected = batch.into_iter().filter(|ended| self.wants_ended(ended));
                let count = found.len();
                found.extend(expected.take(self.most - own));
                own += found.len() - count;
                if own == self.most {
                    break;
                }
            }
        }
        found.sort_by_key(|ended: &Ended| Reverse(ended.id));
        found.truncate(self.most);
        found
    }

    /// The calls in `files`, and the number of the first call of the last file that was read if others are left.
    fn in_files(&self, mut files: Vec<PathBuf>) -> (Vec<(u64, Bytes)>, Option<u64>) {
        let (mut found, mut read) = (Vec::new(), 0);
        while let Some(path) = files.pop() {
            let Some(first) = segment::first_id(&path).filter(|first| *first < self.before) else { continue };
            let is_before = |since| segment::modified(&path).is_some_and(|modified| modified < since);
            if self.filter.since.is_some_and(is_before) {
                continue;
            }
            // It may have been removed meanwhile.
            let text = segment::read(&path).unwrap_or_default();
            self.in_file(&text, &mut found);
            read += 1;
            if found.len() == self.most {
                break;
            }
            if read == MOST_FILES && !files.is_empty() {
                return (found, Some(first));
            }
        }
        (found, None)
    }

    /// Adds the wanted calls of one file.
    fn in_file(&self, text: &[u8], found: &mut Vec<(u64, Bytes)>) {
        let lines = segment::lines(text).filter(|(_, line)| line.id < self.before);
        // The lines have the order of time.
        let [since, _] = &self.times;
        let lines = lines.take_while(|(_, line)| since.as_ref().is_none_or(|since| *line.at >= **since));
        for (text, line) in lines.filter(|(_, line)| self.wants_line(line)) {
            if found.len() == self.most {
                break;
            }
            found.push((line.id, Bytes::copy_from_slice(text)));
        }
    }

    fn wants_ended(&self, ended: &Ended) -> bool {
        let call = &ended.call;
        let is_in_time = self.filter.since.is_none_or(|since| ended.at >= since)
            && self.filter.until.is_none_or(|until| ended.at < until);
        is_in_time
            && self.wants(&CallKey {
                server: &call.server,
                tool: &call.tool,
                principal: call.principal.as_deref(),
                outcome: call.end.get().map_or("", |end| end.outcome),
            })
    }

    fn wants_line(&self, line: &Line<'_>) -> bool {
        let [_, until] = &self.times;
        until.as_ref().is_none_or(|until| *line.at < **until)
            && self.wants(&CallKey {
                server: &line.server,
                tool: &line.tool,
                principal: line.principal.as_deref(),
                outcome: &line.outcome,
            })
    }

    fn wants(&self, call: &CallKey<'_>) -> bool {
        let fits = |expected: &Option<String>, is: Option<&str>| {
            expected.as_deref().is_none_or(|expected| is == Some(expected))
        };
        let Filter { server, tool, principal, outcomes, .. } = &self.filter;
        self.viewer.may_see(call.principal)
            && fits(server, Some(call.server))
            && fits(tool, Some(call.tool))
            && fits(principal, call.principal)
            && (outcomes.is_empty() || outcomes.iter().any(|outcome| outcome == call.outcome))
    }
}
