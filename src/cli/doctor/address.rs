//! The address to listen on: free, taken by a gateway, or taken by another program.
//!
//! Invariant: the address is free again when the check returns. The program that listens is found in `/proc` of Linux.
//! Processes of other users, and those that are not dumpable, hide their descriptors. Then only the user is known.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use super::Finding;
use super::subject::Subject;
use downstream::config::Transport;

/// How many ports after the configured one are tried.
const NEAR_PORTS: u16 = 20;
/// The state of a socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";
/// The most descriptors that are looked at.
const MAX_DESCRIPTORS: usize = 1_000_000;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(config) = subject.config() else { return Vec::new() };
    if config.server.transport == Transport::Stdio || subject.arguments.running.url.is_some() {
        return Vec::new();
    }
    let address = subject.address(config);
    let finding = match TcpListener::bind(address) {
        Ok(_) => Finding::ok(format!("{address} is free: `switchyard` starts the gateway")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && subject.gateway().is_some() => {
            Finding::ok(format!("a Switchyard gateway listens on {address} already"))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => taken(address),
        Err(error) => {
            Finding::problem(format!("{address} cannot be used: {error}")).fix(match error.kind() {
                ErrorKind::PermissionDenied => {
                    "a port of 1024 or above: `switchyard --listen 127.0.0.1:8080`".to_owned()
                }
                _ => "an address of this machine: `switchyard --listen 127.0.0.1:8080`".to_owned(),
            })
        }
    };
    vec![finding]
}

fn taken(address: SocketAddr) -> Finding {
    let port = address.port();
    let (by, stop) = match holder(port) {
        Some(Holder::Process { id, name }) => {
            (format!("`{name}`, process {id}"), format!("`kill {id}` ends it"))
        }
        Some(Holder::User(id)) => (
            format!("a program of the user with id {id}"),
            format!("`sudo ss -ltnp 'sport = :{port}'` names it"),
        ),
        None => ("another program".to_owned(), format!("`lsof -nP -iTCP:{port} -sTCP:LISTEN` names it")),
    };
    let free = (1..=NEAR_PORTS).filter_map(|more| port.checked_add(more));
    let free =
        free.map(|port| SocketAddr::new(address.ip(), port)).find(|near| TcpListener::bind(near).is_ok());
    let other =
        free.map(|near| format!(", `switchyard --listen {near}` takes a free one")).unwrap_or_default();
    Finding::problem(format!("{address} is taken by {by}")).fix(format!("{stop}{other}"))
}

/// The program that listens, or its user.
#[derive(Debug, PartialEq, Eq)]
enum Holder {
    /// A process.
    Process { id: u32, name: String },
    /// Some process of this user.
    User(u32),
}

/// Returns who listens on `port` of this machine.
fn holder(port: u16) -> Option<Holder> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|table| File::open(table).ok());
    let mut lines = tables.flat_map(|table| BufReader::new(table).lines().map_while(Result::ok));
    let (user, socket) = lines.find_map(|line| listens_on(&line, port))?;
    Some(process_with(&socket).unwrap_or(Holder::User(user)))
}

/// Returns the user and the socket of a line, if the socket listens on `port`.
fn listens_on(line: &str, port: u16) -> Option<(u32, PathBuf)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, LISTENS, _, _, _, user, _, number, ..] = fields.as_slice() else { return None };
    let (_, of_line) = local.rsplit_once(':')?;
    (u16::from_str_radix(of_line, 16) == Ok(port)).then_some(())?;
    Some((user.parse().ok()?, format!("socket:[{number}]").into()))
}

fn process_with(socket: &Path) -> Option<Holder> {
    let mut left = MAX_DESCRIPTORS;
    for process in fs::read_dir("/proc").ok()?.filter_map(Result::ok) {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        for descriptor in descriptors.filter_map(Result::ok) {
            left = left.checked_sub(1)?;
            if fs::read_link(descriptor.path()).is_ok_and(|target| target == socket) {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                return Some(Holder::Process { id, name: name.trim().to_owned() });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_listens_on_the_port_counts() {
        let line = |port: &str, state: &str| {
            format!(
                "   0: 0100007F:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0"
            )
        };
        assert_eq!(listens_on(&line("1F90", "0A"), 8080), Some((1000, "socket:[4711]".into())));
        for other in
            [line("1F91", "0A"), line("1F90", "01"), "  sl  local_address rem_address   st".to_owned()]
        {
            assert_eq!(listens_on(&other, 8080), None, "{other}");
        }
    }
}
