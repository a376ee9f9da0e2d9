//! The address to listen on: free, taken by a gateway, or taken by another program.
//!
//! Invariant: the address is free again when the check returns.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use super::finding::Finding;
use super::holder::{Holder, holder};
use super::subject::Subject;
use downstream::config::Transport;

/// How many ports after the configured one are tried.
const NEAR_PORTS: u16 = 20;

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
