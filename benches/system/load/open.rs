//! Open-loop load: calls are sent at fixed times, whether or not the previous ones were answered,
//! and each latency counts from the planned time. A hop that stalls is therefore charged for all
//! calls that it delays. A closed loop would not have made those calls.
//!
//! Each connection is a blocking thread: the kernel's timers wake it to the microsecond.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::call::Requests;
use super::closed::nanoseconds;
use super::inbox::Inbox;
use super::{Load, Sample};

/// How long an answer may take.
const WAIT: Duration = Duration::from_secs(20);

/// Makes `rate` calls per second in total: without counting for `warm_up`, then counting for
/// `slice`.
pub fn run(load: &Load, rate: f64, warm_up: Duration, slice: Duration) -> anyhow::Result<Sample> {
    let began = Instant::now() + Duration::from_millis(20);
    let (from, until) = (began + warm_up, began + warm_up + slice);
    let mut running = Vec::new();
    for number in 0..load.connections {
        let load = load.clone();
        let plan = Plan::of(&load, rate, number, began);
        running.push(std::thread::spawn(move || plan.follow(&load, number, from, until)));
    }
    let mut latencies = Vec::new();
    for caller in running {
        latencies.extend(caller.join().map_err(|_| anyhow::anyhow!("a caller panicked"))??);
    }
    ensure!(!latencies.is_empty(), "no call was made in {slice:?}");
    latencies.sort_unstable();
    Ok(Sample { latencies, took: slice, processor_seconds: Vec::new() })
}

/// The times at which one connection sends.
struct Plan {
    next: Instant,
    pause: Duration,
}

impl Plan {
    #[allow(clippy::cast_precision_loss)] // some hundreds
    fn of(load: &Load, rate: f64, number: usize, began: Instant) -> Self {
        let pause = load.connections as f64 / rate;
        let first = pause * number as f64 / load.connections as f64;
        Self { next: began + Duration::from_secs_f64(first), pause: Duration::from_secs_f64(pause) }
    }

    fn follow(
        mut self,
        load: &Load,
        number: usize,
        from: Instant,
        until: Instant,
    ) -> anyhow::Result<Vec<u32>> {
        wake_precisely();
        let mut requests = Requests::new(&load.call, load.address, number, None);
        let mut socket = TcpStream::connect(load.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(WAIT))?;
        let mut inbox = Inbox::default();
        let mut latencies = Vec::new();
        while self.next < until {
            std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
            socket.write_all(requests.next())?;
            receive(&mut socket, &mut inbox)?;
            let answer = inbox.answer()?;
            requests.check(answer.status, answer.body)?;
            if self.next >= from {
                latencies.push(nanoseconds(self.next.elapsed()));
            }
            self.next += self.pause;
        }
        Ok(latencies)
    }
}

fn receive(socket: &mut TcpStream, inbox: &mut Inbox) -> anyhow::Result<()> {
    let mut buffer = [0; 4096];
    inbox.clear();
    loop {
        let read = socket.read(&mut buffer).context("an answer stays away")?;
        ensure!(read > 0, "the connection ended within an answer");
        inbox.bytes.extend_from_slice(&buffer[..read]);
        if inbox.is_complete()? {
            return Ok(());
        }
    }
}

/// By default the kernel may wake a thread 50 µs late.
fn wake_precisely() {
    if let Ok(own) = fs::read_link("/proc/thread-self")
        && let Some(thread) = own.file_name()
    {
        // If that is not allowed, all figures are larger by about the same amount.
        let _ = fs::write(format!("/proc/{}/timerslack_ns", thread.to_string_lossy()), "1");
    }
}
