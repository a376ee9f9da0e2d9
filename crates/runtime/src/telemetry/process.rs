//! The process itself, under the names that every Prometheus client has for it.
//!
//! Not here: macOS, which tells these figures only by calls that are not safe; there only the CPU time is known.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The process at a moment. A figure is missing where the system does not tell it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessUsage {
    /// CPU time of all threads, in user and system mode.
    pub cpu: Duration,
    /// When it started.
    pub started: Option<SystemTime>,
    /// Bytes of memory in use.
    pub resident_bytes: Option<u64>,
    /// Bytes of address space.
    pub virtual_bytes: Option<u64>,
    /// Open files and sockets.
    pub open_fds: Option<u64>,
    /// The most files and sockets that may be open.
    pub max_fds: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
}

impl ProcessUsage {
    /// Reads the figures. It reads files of `/proc` and blocks.
    pub fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(cpu.tv_sec).unwrap_or_default();
        let usage = Self {
            cpu: Duration::new(seconds, u32::try_from(cpu.tv_nsec).unwrap_or_default()),
            max_fds: getrlimit(Resource::Nofile).current,
            ..Self::default()
        };
        of_proc(usage)
    }

    /// When the process started, in seconds since 1970.
    pub(crate) fn started_at(&self) -> Option<f64> {
        Some(self.started?.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
    }
}

/// Adds what `/proc` tells (`proc_pid_stat(5)`).
#[cfg(target_os = "linux")]
fn of_proc(usage: ProcessUsage) -> ProcessUsage {
    use rustix::param::{clock_ticks_per_second, page_size};

    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may have spaces and parentheses; the state follows it as field 3.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let field = |number: usize| after_name.split(' ').nth(number - 3)?.parse::<u64>().ok();
    let system = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = system.lines().find_map(|line| line.strip_prefix("btime ")?.parse().ok());
    let ticks = clock_ticks_per_second().max(1);
    let since_boot = field(22).map(|start| Duration::from_millis(start.saturating_mul(1_000) / ticks));
    let page = u64::try_from(page_size()).unwrap_or_default();
    ProcessUsage {
        started: booted.zip(since_boot).map(|(boot, since)| UNIX_EPOCH + Duration::from_secs(boot) + since),
        resident_bytes: field(24).map(|pages| pages.saturating_mul(page)),
        virtual_bytes: field(23),
        // The open folder is one of its own entries.
        open_fds: std::fs::read_dir("/proc/self/fd")
            .ok()
            .map(|entries| u64::try_from(entries.count()).unwrap_or(u64::MAX).saturating_sub(1)),
        threads: field(20),
        ..usage
    }
}

#[cfg(not(target_os = "linux"))]
fn of_proc(usage: ProcessUsage) -> ProcessUsage {
    usage
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn process_that_works_shows_it_in_its_own_figures() {
        let before = ProcessUsage::now();
        let (file, block) =
            (std::fs::File::open("/proc/self/stat").expect("it is there"), vec![1_u8; 64 << 20]);
        assert!(block.iter().map(|byte| u64::from(*byte)).sum::<u64>() > 0);
        let after = ProcessUsage::now();
        drop(file);
        let grown = after.resident_bytes.expect("Linux") - before.resident_bytes.expect("Linux");
        assert!(grown > 60 << 20 && after.virtual_bytes > before.virtual_bytes, "{grown}");
        assert!(after.cpu > before.cpu && after.threads >= Some(2), "{after:?}");
        assert!(after.open_fds > before.open_fds && after.open_fds < after.max_fds, "{after:?}");
        let age = SystemTime::now().duration_since(after.started.expect("Linux")).unwrap_or_default();
        assert!(age < Duration::from_mins(5), "{age:?}");
    }
}
