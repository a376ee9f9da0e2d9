//! Tests of the input queue of a child, with a pipe whose other end is read here.

use futures_util::FutureExt;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{self, Receiver};

use super::*;
use crate::connection::EventSender;
use crate::transport::pending::{Purpose, RequestTicket};

/// An outbox, the table of its requests, and the child's end of the pipe.
async fn outbox() -> (Outbox, Arc<Pending>, Receiver, WriterWaker) {
    let (input, output) = pipe::pipe().expect("a pipe");
    // A new pipe counts as full until the runtime has polled it.
    input.writable().await.expect("open");
    let (outbox, due) = Outbox::new(input);
    (outbox, Pending::new(0, |_| {}), output, due)
}

fn open(pending: &Arc<Pending>) -> RequestTicket {
    pending.open(&EventSender::none(), Purpose::Upkeep).expect("open")
}

fn request(ticket: &RequestTicket, line: &str) -> Outgoing {
    Outgoing::Request { id: ticket.id(), line: Bytes::from(line.to_owned()) }
}

/// Returns the text that the child can read now.
fn readable(output: &Receiver) -> String {
    let mut text = vec![0; 1 << 20];
    let length = output.try_read(&mut text).unwrap_or_default();
    text.truncate(length);
    String::from_utf8(text).expect("UTF-8")
}

async fn read(output: &mut Receiver, length: usize) -> String {
    let mut text = vec![0; length];
    output.read_exact(&mut text).await.expect("so much");
    String::from_utf8(text).expect("UTF-8")
}

#[tokio::test]
async fn single_writer_writes_at_once() {
    let (outbox, pending, mut output, _due) = outbox().await;
    let ticket = open(&pending);
    assert!(ticket.is_alone());
    outbox.send(&pending, request(&ticket, "one\n"), true).await.expect("sent");
    // No writer runs here.
    assert_eq!(read(&mut output, 4).await, "one\n");
    assert!(!open(&pending).is_alone());
}

#[tokio::test]
async fn calls_of_one_turn_share_a_write_and_one_that_was_given_up_is_not_in_it() {
    let (outbox, pending, mut output, due) = outbox().await;
    let tickets = [open(&pending), open(&pending), open(&pending)];
    for (ticket, line) in tickets.iter().zip(["one\n", "two\n", "three\n"]) {
        outbox.send(&pending, request(ticket, line), false).await.expect("sent");
    }
    outbox.offer(Bytes::from_static(b"four\n"));
    let [_one, two, _three] = tickets;
    drop(two);
    tokio::select! {
        error = outbox.write(&pending, &due) => panic!("{error}"),
        text = read(&mut output, 15) => assert_eq!(text, "one\nthree\nfour\n"),
    }
}

#[tokio::test]
async fn messages_queued_during_a_write_are_written_by_the_writer() {
    let (outbox, pending, mut output, due) = outbox().await;
    let tickets = [open(&pending), open(&pending)];
    outbox.lock().is_writing = true;
    for (ticket, is_alone) in tickets.iter().zip([true, false]) {
        let line = request(ticket, "line\n");
        let sent = outbox.send(&pending, line, is_alone).now_or_never().expect("it does not wait");
        assert!(sent.expect("open").is_none());
    }
    assert!(due.notified().now_or_never().is_none(), "nobody is woken for it");
    assert!(matches!(outbox.flush(&pending), Written::All) && readable(&output).is_empty());
    outbox.lock().is_writing = false;
    assert!(matches!(outbox.flush(&pending), Written::All));
    assert_eq!(read(&mut output, 10).await, "line\nline\n");
}

/// Length of lines of which no two are written together.
const WIDE: usize = AT_ONCE / 2 + 52;

/// An outbox with `lines` of them in its queue, and the receiving end. A socket holds more than a pipe.
async fn with_wide_lines(lines: usize) -> (Outbox, Arc<Pending>, UnixStream, WriterWaker) {
    let (input, output) = std::os::unix::net::UnixStream::pair().expect("a pair");
    for end in [&input, &output] {
        end.set_nonblocking(true).expect("a socket");
    }
    let input = pipe::Sender::from_owned_fd_unchecked(input.into()).expect("a runtime");
    input.writable().await.expect("open");
    let (outbox, due) = Outbox::new(input);
    for _ in 0..lines {
        outbox.offer(Bytes::from("x".repeat(WIDE - 1) + "\n"));
    }
    (outbox, Pending::new(0, |_| {}), UnixStream::from_std(output).expect("a runtime"), due)
}

/// Returns how many wide lines can be read now.
async fn wide_lines(output: &UnixStream) -> usize {
    let silence_limits = std::time::Duration::from_secs(5);
    tokio::time::timeout(silence_limits, output.readable()).await.expect("there are some").expect("open");
    let length = output.try_read(&mut vec![0; 1 << 20]).expect("something");
    assert_eq!(length % WIDE, 0, "lines are whole");
    length / WIDE
}

#[tokio::test]
async fn writer_that_writes_for_others_hands_over_to_the_first_writer() {
    let (outbox, pending, output, due) = with_wide_lines(MOST_PASSES + 4).await;
    assert!(due.notified().now_or_never().is_some(), "it was woken by those who queued");
    let other = WriterWaker::default();
    other.notify_one();
    assert!(outbox.write_when(&pending, &other).now_or_never().is_none());
    assert_eq!(wide_lines(&output).await, MOST_PASSES);
    // No message is queued any more, and nothing else wakes it.
    assert!(outbox.write(&pending, &due).now_or_never().is_none());
    assert_eq!(wide_lines(&output).await, 4);
}

#[tokio::test]
async fn the_first_writer_lets_others_have_a_turn() {
    let (outbox, pending, output, due) = with_wide_lines(2 * MOST_PASSES + 4).await;
    let mut writing = std::pin::pin!(outbox.write(&pending, &due));
    for lines in [MOST_PASSES, MOST_PASSES, 4] {
        assert!(writing.as_mut().now_or_never().is_none());
        assert_eq!(wide_lines(&output).await, lines);
    }
}

#[tokio::test]
async fn behind_a_full_pipe_lines_stay_whole_and_those_given_up_are_never_written() {
    let (outbox, pending, mut output, due) = outbox().await;
    let (large, small, left) = (open(&pending), open(&pending), open(&pending));
    let long = "x".repeat(1 << 20) + "\n";
    outbox.send(&pending, request(&large, &long), true).await.expect("sent");
    outbox.send(&pending, request(&left, "left\n"), true).await.expect("queued");
    outbox.send(&pending, request(&small, "small\n"), true).await.expect("queued");
    drop(left);
    let running = outbox.write(&pending, &due);
    let reading = async {
        let text = read(&mut output, long.len() + 6).await;
        assert!(text.starts_with(&long) && text.ends_with("x\nsmall\n"));
        assert_eq!(readable(&output), "");
    };
    tokio::select! {
        error = running => panic!("{error}"),
        () = reading => {}
    }
}

#[tokio::test]
async fn message_that_a_full_pipe_refuses_counts_as_not_written() {
    let (outbox, pending, mut output, due) = outbox().await;
    let stdin = outbox.lock().stdin.clone().expect("open");
    while stdin.try_write(&[b'x'; 4096]).is_ok() {}
    let ticket = open(&pending);
    let others: Vec<RequestTicket> = (0..3).map(|_| open(&pending)).collect();
    outbox.send(&pending, request(&ticket, "first\n"), true).await.expect("queued");
    for other in &others {
        outbox.send(&pending, request(other, "other\n"), false).await.expect("queued");
    }
    assert!(matches!(outbox.flush(&pending), Written::Blocked));
    pending.end("the process ended");
    let mut ticket = ticket;
    assert!(matches!(ticket.answer().await, Err(crate::Error::NotSent { .. })));
    // In their order, once there is room again. No caller waits for them now.
    outbox.offer(Bytes::from_static(b"last\n"));
    output.readable().await.expect("open");
    assert!(readable(&output).ends_with('x'));
    tokio::select! {
        error = outbox.write(&pending, &due) => panic!("{error}"),
        text = read(&mut output, 5) => assert_eq!(text, "last\n"),
    }
}

#[tokio::test]
async fn the_queue_has_an_end_and_closing_ends_the_waiting() {
    let (outbox, pending, _output, _due) = outbox().await;
    for _ in 0..2 * QUEUE {
        outbox.offer(Bytes::from_static(b"{}\n"));
    }
    assert_eq!(outbox.lock().queue.len(), QUEUE);
    let ticket = open(&pending);
    let sending = outbox.send(&pending, request(&ticket, "late\n"), false);
    tokio::pin!(sending);
    assert!(sending.as_mut().now_or_never().is_none());
    outbox.close();
    assert_eq!(sending.await.expect_err("closed").kind(), ErrorKind::BrokenPipe);
    let again = outbox.send(&pending, request(&ticket, "late\n"), true).await;
    assert_eq!(again.expect_err("closed").kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn each_worker_has_a_writer_and_only_the_first_waits_for_the_pipe() {
    let (outbox, pending, mut output, due) = outbox().await;
    let (long, tickets) = ("x".repeat(1 << 20) + "\n", [open(&pending), open(&pending), open(&pending)]);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            worker::become_worker(1);
            let send = |ticket, line| outbox.send(&pending, request(ticket, line), false).now_or_never();
            let other = send(&tickets[0], &long).expect("room").expect("open").expect("it is the first here");
            assert!(send(&tickets[1], "two\n").expect("room").expect("open").is_none(), "there is one now");
            assert!(outbox.write_when(&pending, &other).now_or_never().is_none(), "it stops at a full pipe");
            assert!(outbox.lock().is_full);
            assert!(send(&tickets[2], "three\n").expect("room").expect("open").is_none());
            assert!(matches!(outbox.flush(&pending), Written::Blocked));
        });
    });
    tokio::select! {
        error = outbox.write(&pending, &due) => panic!("{error}"),
        text = read(&mut output, long.len() + 10) => assert_eq!(text, long + "two\nthree\n"),
    }
}
