//! Listening sockets that the program was started with: socket activation of systemd (`LISTEN_FDS`).
//!
//! Invariants: sockets for another process (`LISTEN_PID`) are not touched. The variables are removed, and the sockets are
//! closed in child processes. Only TCP sockets that listen are taken; anything else is an error that names it.
//!
//! Source: `sd_listen_fds(3)`. Not here: accepting connections (`downstream::listening_sockets`).

use std::env;
use std::net::TcpListener;
use std::process;

use listenfd::ListenFd;
use socket2::SockRef;

/// Limit of sockets that are taken.
const MAX_SOCKETS: usize = 64;

/// Takes the sockets for this process; none if it was started without. Call it before there are other threads, because
/// it changes the environment.
pub(super) fn take() -> Result<Vec<TcpListener>, String> {
    let Ok(count) = env::var("LISTEN_FDS") else { return Ok(Vec::new()) };
    let is_own = env::var("LISTEN_PID").is_ok_and(|pid| pid == process::id().to_string());
    let number = count.parse::<usize>().ok().filter(|count| *count <= MAX_SOCKETS);
    if number.is_none() && is_own {
        let count: String = count.chars().take(20).collect();
        return Err(format!(
            "LISTEN_FDS is {count:?}, and a number of sockets up to {MAX_SOCKETS} is expected"
        ));
    }
    if number.is_none() {
        return Ok(Vec::new());
    }
    // Removes the variables, also those for another process.
    let mut sockets = ListenFd::from_env();
    let count = if is_own { sockets.len() } else { 0 };
    let listening = |index| {
        taken(&mut sockets, index).map_err(|reason| {
            format!(
                "LISTEN_FDS: socket {} of {count} cannot be used: {reason}; Switchyard accepts TCP connections, so write ListenStream=ADDRESS:PORT and Accept=no in the .socket unit",
                index + 1
            )
        })
    };
    (0..count).map(listening).collect()
}

fn taken(sockets: &mut ListenFd, index: usize) -> Result<TcpListener, String> {
    let socket = sockets.take_tcp_listener(index).map_err(|error| error.to_string())?;
    let socket = socket.ok_or("there is no such descriptor")?;
    match SockRef::from(&socket).is_listener() {
        Ok(true) => Ok(socket),
        Ok(false) => Err("it does not listen".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
