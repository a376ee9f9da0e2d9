//! The lines that wait for a blocked writer, and those that are written once it works again.

use super::super::sink::Sink;
use super::*;

/// A writer that fails while an error is set.
struct BrokenSink(Sink, std::sync::Arc<Mutex<Option<io::ErrorKind>>>);

impl Write for BrokenSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match *self.1.lock().expect("not poisoned") {
            Some(kind) => Err(kind.into()),
            // Writes a few bytes at a time.
            None => self.0.write(&bytes[..bytes.len().min(3)]),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn queue() -> &'static LogQueue {
    let queue = Box::leak(Box::new(LogQueue::new()));
    queue.lock().has_writer = true;
    queue
}

#[test]
fn log_lines_are_bounded_in_number_and_in_bytes() {
    for (line, most) in [(vec![b'x'; 10], LOG.lines), (vec![b'x'; 1 << 16], LOG.bytes >> 16)] {
        let queue = queue();
        (0..most + 5).for_each(|_| queue.put(LineKind::Log, &line));
        let state = queue.lock();
        assert_eq!((state.lines.len(), state.dropped), (most, 5), "{} bytes a line", line.len());
    }
}

#[test]
fn waiting_audit_lines_refuse_by_share() {
    let queue = queue();
    let fill = |quota| {
        let put = std::iter::repeat_with(|| queue.check(quota).map(|()| queue.put(LineKind::Audit, b"x")));
        put.take_while(Result::is_ok).count()
    };
    let filled = [Quota::Half, Quota::ThreeQuarters, Quota::All].map(fill);
    assert_eq!(filled, [2_048, 1_024, 1_024]);
    let queue = self::queue();
    queue.put(LineKind::Audit, &vec![b'x'; AUDIT.bytes + 1]);
    assert_eq!(queue.check(Quota::All), Err(Full::Lines), "bytes count too");
}

#[test]
fn running_actions_take_no_room_of_lines_and_leave_some_to_other_principals() {
    let queue = queue();
    let take = |quota, who| std::iter::from_fn(|| queue.reserve(quota, who).ok()).collect::<Vec<_>>();
    let greedy = take(Quota::ThreeQuarters, "a");
    let other = take(Quota::ThreeQuarters, "b");
    assert_eq!((greedy.len(), other.len()), (RUNNING / 16 * 9, RUNNING / 64 * 9));
    assert_eq!(queue.reserve(Quota::ThreeQuarters, "a").err(), Some(Full::Actions));
    assert!(queue.reserve(Quota::All, "ops").is_ok(), "kept for operations");
    assert_eq!(queue.check(Quota::Half), Ok(()), "no line waits");
    drop(greedy);
    assert!(queue.reserve(Quota::ThreeQuarters, "a").is_ok());
}

#[test]
#[allow(clippy::disallowed_methods)] // there is no runtime here
fn audit_lines_outlast_a_broken_output_and_log_lines_do_not() {
    let (sink, queue) = (Sink::default(), queue());
    let fault = std::sync::Arc::new(Mutex::new(Some(io::ErrorKind::BrokenPipe)));
    queue.start(BrokenSink(sink.clone(), fault.clone())).expect("a thread");
    queue.put(LineKind::Log, b"lost\n");
    queue.put(LineKind::Audit, b"who did it\n");
    queue.put(LineKind::Log, b"after it\n");
    queue.flush(Duration::from_millis(50));
    assert_eq!((sink.text().as_str(), queue.lock().dropped), ("", 1));
    *fault.lock().expect("not poisoned") = Some(io::ErrorKind::WouldBlock);
    std::thread::sleep(RETRY);
    *fault.lock().expect("not poisoned") = None;
    queue.flush(Duration::from_secs(20));
    assert_eq!(sink.text(), "who did it\nafter it\n");
    let state = queue.lock();
    assert_eq!((state.audit.lines, state.dropped), (0, 0), "it was told");
}

fn fill(running: &mut Running, principal: &str) -> usize {
    std::iter::repeat_with(|| running.add(principal, 1_600)).take_while(|added| *added).count()
}

#[test]
fn no_principal_takes_the_room_of_another_one() {
    let mut running = Running::new();
    assert_eq!((fill(&mut running, "a"), fill(&mut running, "b")), (1_200, 300));
    let late: Vec<usize> = ["c", "d"].map(|principal| fill(&mut running, principal)).into();
    assert_eq!(late, [75, 18]);
    (0..1_200).for_each(|_| running.remove("a"));
    assert_eq!((running.0.len(), running.0.sum()), (3, 393), "`a` costs nothing");
    running.remove("a");
    assert_eq!(running.0.sum(), 393, "an unknown principal changes nothing");
}

#[test]
fn line_means_the_same_and_is_visible_json() {
    let text = "a\u{7f}\u{202e}\u{e0041}\u{3164}é";
    let line = format!("{{\"text\":\"{text}\"}}\n");
    let shown = visible_json(line.as_bytes());
    assert_eq!(
        std::str::from_utf8(&shown).expect("text"),
        "{\"text\":\"a\\u007f\\u202e\\udb40\\udc41\\u3164é\"}\n"
    );
    let read: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
    assert_eq!(read["text"], text);
    assert!(matches!(visible_json(b"{\"a\":1}\n"), Cow::Borrowed(_)));
}

mod log_file {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_follow_the_path_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, moved] = ["log", "log.1"].map(|name| folder.path().join(name));
        fs::write(&path, "0\n").expect("written");
        let mut log = LogFile::open(&path).expect("opened");
        log.write_all(b"1\n").expect("written");
        fs::rename(&path, &moved).expect("moved");
        log.write_all(b"2\n").expect("written");
        log.checked -= CHECK_INTERVAL;
        log.write_all(b"3\n").expect("written");
        assert_eq!(fs::read_to_string(&moved).expect("read"), "0\n1\n2\n");
        assert_eq!(fs::read_to_string(&path).expect("read"), "3\n");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o027, 0, "others may not read it: {mode:o}");
    }

    #[test]
    fn path_that_is_no_regular_file_is_refused() {
        for path in ["/dev/null", "/", "/nowhere/at/all"] {
            assert!(LogFile::open(Path::new(path)).is_err(), "{path}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let [link, victim] = ["log", "victim"].map(|name| folder.path().join(name));
        fs::write(&victim, "theirs").expect("written");
        std::os::unix::fs::symlink(&victim, &link).expect("linked");
        assert!(LogFile::open(&link).is_err());
    }
}
