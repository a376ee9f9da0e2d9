//! Tests of moving the reader of a child's output: two workers, and a pipe whose other end is written to here.

use std::io::{PipeReader, PipeWriter};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::connection::EventSender;
use crate::secrets::Secrets;
use crate::transport::pending::{Purpose, RequestTicket};
use json::Raw;

/// Longer than any step of these tests.
const WAIT: Duration = Duration::from_secs(20);

/// The table of the requests, the runtimes of their callers, and the signals of the reader.
struct Bench {
    pending: Arc<Pending>,
    runtimes: Arc<Runtimes>,
    signals: Signals,
    tasks: Shutdown,
    tail: StderrTail,
}

impl Bench {
    fn new() -> Self {
        let pending = Pending::new(0, |_| {});
        let (signals, tasks) = (Signals::default(), Shutdown::new());
        Self { pending, runtimes: Arc::default(), signals, tasks, tail: StderrTail::default() }
    }

    /// Reads `output` on this worker, until it ends or the reader moves.
    async fn read(&self, output: PipeReader) {
        let (pending, runtimes) = (Arc::clone(&self.pending), Arc::clone(&self.runtimes));
        let router = ResponseRouter { pending, runtimes, tasks: self.tasks.clone() };
        let questions = Questions::new(&"s".into(), &self.tasks, |_| async {}.boxed());
        let ends = (questions, Events::channel().0);
        let reader =
            StdioReader::new("s".into(), 1 << 20, router, ends, &self.signals.broken, self.tail.clone());
        let stdout = pipe::Receiver::from_owned_fd(output.into()).expect("a pipe");
        reader.run(stdout, OutputEnd::new(self.signals.clone())).await;
    }

    fn open(&self) -> RequestTicket {
        self.runtimes.note_here();
        self.pending.open(&EventSender::none(), Purpose::Upkeep).expect("open")
    }
}

fn answer_to(ticket: &RequestTicket) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{0},\"result\":{0}}}\n", ticket.id())
}

async fn write(input: PipeWriter, text: &str) -> pipe::Sender {
    let mut input = pipe::Sender::from_owned_fd(input.into()).expect("a pipe");
    input.write_all(text.as_bytes()).await.expect("written");
    input
}

async fn is_answered(mut ticket: RequestTicket) {
    let answer = tokio::time::timeout(WAIT, ticket.answer()).await.expect("in time");
    assert_eq!(answer.expect("an answer"), Ok(Raw::of(&ticket.id())));
}

/// Runs `work` as the worker `number`, in a separate runtime.
fn on_worker<T>(number: usize, work: impl Future<Output = T>) -> T {
    worker::become_worker(number);
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

#[test]
fn answers_that_come_together_find_their_callers_on_each_worker() {
    let (bench, (output, input)) = (&Bench::new(), std::io::pipe().expect("a pipe"));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|threads| {
        let elsewhere = async move {
            let tickets = [bench.open(), bench.open(), bench.open()];
            sender.send(tickets.iter().map(answer_to).collect::<String>()).expect("heard");
            for ticket in tickets {
                is_answered(ticket).await;
            }
        };
        threads.spawn(move || on_worker(1, elsewhere));
        on_worker(0, async {
            let theirs = receiver.recv_timeout(WAIT).expect("opened");
            let (one, two) = (bench.open(), bench.open());
            drop(write(input, &[answer_to(&one), theirs, answer_to(&two)].concat()).await);
            bench.read(output).await;
            is_answered(one).await;
            is_answered(two).await;
        });
    });
    assert!(bench.signals.read.is_cancelled());
}

#[test]
fn a_reader_moves_to_the_worker_whose_calls_alone_are_answered_and_keeps_what_it_has_read() {
    let (bench, (output, input)) = (&Bench::new(), std::io::pipe().expect("a pipe"));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|threads| {
        let elsewhere = async move {
            let mut input = write(input, "").await;
            for _ in 1..MOVES_AFTER {
                let ticket = bench.open();
                input.write_all(answer_to(&ticket).as_bytes()).await.expect("written");
                is_answered(ticket).await;
            }
            let (last, next) = (bench.open(), bench.open());
            let (begin, end) = (answer_to(&last) + &answer_to(&next)[..9], answer_to(&next)[9..].to_owned());
            input.write_all(begin.as_bytes()).await.expect("written");
            is_answered(last).await;
            receiver.recv_timeout(WAIT).expect("it moved");
            assert!(!bench.signals.read.is_cancelled(), "it goes on");
            input.write_all(end.as_bytes()).await.expect("written");
            is_answered(next).await;
            drop(input);
            tokio::time::timeout(WAIT, bench.signals.read.cancelled()).await.expect("it ends here");
        };
        threads.spawn(move || on_worker(1, elsewhere));
        on_worker(0, bench.read(output));
        // From here on this worker does not poll the pipe.
        sender.send(()).expect("heard");
    });
}

#[test]
fn a_reader_stays_while_it_is_of_use_where_it_is() {
    let (bench, (output, input)) = (Bench::new(), std::io::pipe().expect("a pipe"));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|threads| {
        threads.spawn(|| {
            let tickets = async { (0..2 * MOVES_AFTER).map(|_| bench.open()).collect::<Vec<_>>() };
            sender.send(on_worker(1, tickets)).expect("heard");
        });
        on_worker(0, async {
            let theirs = receiver.recv_timeout(WAIT).expect("opened");
            let mut input = write(input, "").await;
            let work = async {
                for theirs in theirs.chunks(MOVES_AFTER - 1) {
                    let ours = bench.open();
                    let text: String = theirs.iter().chain([&ours]).map(answer_to).collect();
                    input.write_all(text.as_bytes()).await.expect("written");
                    is_answered(ours).await;
                }
                drop(input);
            };
            tokio::join!(work, bench.read(output));
        });
    });
    assert!(bench.signals.read.is_cancelled(), "it was read to its end here");
}

#[tokio::test(start_paused = true)] // the pauses of the reader end at once
async fn log_lines_after_a_response_are_shown_to_nobody_and_close_nothing() {
    let (bench, (output, input)) = (Bench::new(), std::io::pipe().expect("a pipe"));
    let mut input = write(input, "").await;
    let work = async {
        input.write_all(b"a banner\n").await.expect("written");
        // As junk, 200 lines of 48 KiB would close the connection.
        let filler = "x".repeat(48 * 1024);
        for _ in 0..100 {
            let ticket = bench.open();
            let response = answer_to(&ticket);
            let log = format!("DEBUG {filler} sent {{\"secret\":0}} {response}");
            input.write_all([response.as_str(), &log, &log].concat().as_bytes()).await.expect("written");
            is_answered(ticket).await;
        }
        drop(input);
    };
    tokio::join!(work, bench.read(output));
    assert_eq!(bench.signals.broken.reason(), "the process closed its output");
    let shown = bench.tail.append_to("over", &Secrets::new(&[]));
    assert_eq!(shown, "over; the end of its standard output: a banner");
}

#[tokio::test(start_paused = true)] // the doubt ends at once
async fn a_line_with_several_responses_answers_each_call() {
    let (bench, (output, input)) = (Bench::new(), std::io::pipe().expect("a pipe"));
    let mut tickets = [bench.open(), bench.open(), bench.open()];
    let [one, two, three] = [0, 1, 2].map(|at| answer_to(&tickets[at]).trim_end().to_owned());
    drop(write(input, &format!("{one}{two}\n[{}{three}]\n", "1,".repeat(1_024))).await);
    bench.read(output).await;
    for (ticket, reason) in tickets.iter_mut().zip(["JSON", "JSON", "the batch has more than 1,024 messages"])
    {
        let answer = tokio::time::timeout(WAIT, ticket.answer()).await.expect("in time");
        let error = answer.expect_err("it cannot be read");
        assert!(
            matches!(&error, Error::Unreadable { reason: text, .. } if text.contains(reason)),
            "{error:?}"
        );
    }
}
