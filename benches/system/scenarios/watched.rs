//! Calls while somebody reads the live events, beside calls that nobody watches.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;

use anyhow::{Context as _, ensure};
use memchr::memmem;

use super::{Bench, one_server, through};
use crate::child;
use crate::load::call::{Call, Form};
use crate::measure::Role;

const CONNECTIONS: usize = 16;
const ENDED: &[u8] = b"\nevent: call_ended\n";
const REQUEST: &[u8] =
    b"GET /api/v1/mcp/events?kind=call_started,call_ended HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";

/// Two equal gateways, of which one has a reader of all its events.
pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let call = Call::echo(Form::Modern);
    let server = child::own(&["server"])?;
    let hop = bench.bare(&server)?;
    let config = one_server(&server);
    let (alone, watched) = (bench.gateways(&config, &call).await?, bench.gateways(&config, &call).await?);
    let mut ways = vec![through("bare hop", Role::Limit, &hop, &call, CONNECTIONS)];
    let mut readers = Vec::new();
    for (alone, watched) in alone.iter().zip(&watched) {
        readers.push((watched.name, read(watched.running.address)?));
        ways.push(alone.way("", &call, CONNECTIONS));
        ways.push(watched.way("watched", &call, CONNECTIONS));
    }
    bench.measure("watched", &ways).await?;
    // The streams end with their gateways.
    drop(watched);
    for (name, reader) in readers {
        let share = reader.join().ok().flatten().context("the reader saw no call")?;
        bench.report.fact(format!("{name}: calls whose end the reader got"), 100.0 * share, "%");
    }
    Ok(())
}

/// Reads the live events in a thread, so that neither the load nor the gateway works for it. Returns the share of calls
/// whose end was not lost to a gap, when the stream ends.
fn read(gateway: SocketAddr) -> anyhow::Result<JoinHandle<Option<f64>>> {
    let mut socket = TcpStream::connect(gateway)?;
    socket.write_all(REQUEST)?;
    let mut buffer = vec![0; 256 * 1024];
    let mut length = socket.read(&mut buffer)?;
    ensure!(buffer.starts_with(b"HTTP/1.1 200"), "no events: {}", String::from_utf8_lossy(&buffer[..length]));
    Ok(std::thread::spawn(move || {
        let (mut input, mut ended, mut calls) = (Vec::new(), 0_u32, None);
        while length > 0 {
            input.extend_from_slice(&buffer[..length]);
            // The rest is the beginning of an event.
            let whole = memmem::rfind(&input, b"\n\n").map_or(0, |end| end + 2);
            ended += u32::try_from(memmem::find_iter(&input[..whole], ENDED).count()).ok()?;
            calls = last_call(&input[..whole]).max(calls);
            input.drain(..whole);
            length = socket.read(&mut buffer).unwrap_or_default();
        }
        Some(f64::from(ended) / f64::from(calls?))
    }))
}

/// The number of the last call in `text`.
fn last_call(text: &[u8]) -> Option<u32> {
    let (_, rest) = text.split_at_checked(memmem::rfind(text, b"\"call\":")? + b"\"call\":".len())?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}
