//! Connections whose slot is claimed while a request is on its way.

use std::io::{Read, Write};

use axum::routing::get;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::*;
use crate::listening_sockets::SocketCounts;
use crate::moving_socket::MovingSocket;
use crate::socket_slots::{SocketSlot, SocketSlots};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A connection without a listener, and its client, which blocks.
async fn connected(live: &Shutdown) -> (SocketSlot, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let client = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
    let socket: TcpStream = listener.accept().await.expect("a client").0;
    let site = Router::new().route("/", get(|| async { "hello" }));
    let context = ConnectionContext {
        live: live.clone(),
        cut: CancellationToken::new(),
        site,
        limits: Limits::default(),
    };
    let slots = SocketSlots::new(1, SocketCounts::default());
    let (slot, stream) = (
        slots.open(slots.take().expect("free"), std::net::Ipv4Addr::LOCALHOST.into()),
        ClientStream::Plain(MovingSocket::new(socket)),
    );
    live.spawn(connection((stream, None), slot.client.clone(), context));
    (slot, client)
}

/// Lets the connection do what there is to do.
async fn settled() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// The bytes that the client has received so far.
fn received(client: &mut std::net::TcpStream) -> String {
    client.set_nonblocking(true).expect("a socket");
    let mut bytes = Vec::new();
    let end = client.read_to_end(&mut bytes);
    let end = if end.is_ok() { " and the end" } else { "" };
    String::from_utf8_lossy(&bytes).into_owned() + end
}

/// Whether the client receives an answer, on a busy machine too.
async fn hears(client: &mut std::net::TcpStream) -> bool {
    for _ in 0..100 {
        settled().await;
        if received(client).ends_with("hello") {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_request_that_has_arrived_keeps_its_connection_and_is_answered() {
    let live = Shutdown::new();
    for half in [REQUEST.len(), 10] {
        let (slot, mut client) = connected(&live).await;
        client.write_all(REQUEST).expect("sent");
        assert!(hears(&mut client).await);
        let (claim, claimed) = oneshot::channel();
        // The runtime does not look at its sockets before the connection hears of the claim.
        client.write_all(&REQUEST[..half]).expect("sent");
        slot.client.activity().claim(claim);
        assert!(claimed.await.is_err(), "the claim is refused");
        client.write_all(&REQUEST[half..]).expect("sent");
        assert!(hears(&mut client).await);
    }
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_for_a_claim() {
    let live = Shutdown::new();
    let (slot, mut client) = connected(&live).await;
    settled().await;
    let (claim, _claimed) = oneshot::channel();
    slot.client.activity().claim(claim);
    settled().await;
    assert_eq!(received(&mut client), " and the end");
    assert!(slot.client.activity().take_claim().is_some(), "its slot still has to be given");
}
