//! A listener whose connections are all taken.

use super::*;
use crate::load_shed::AT_ONCE;

/// A route whose answer never ends, beside the usual ones.
fn with_endless() -> Router {
    let endless = futures_util::stream::pending::<Result<Bytes, Infallible>>;
    routes().route("/endless", get(move || async move { Body::from_stream(endless()) }))
}

/// A connection that is busy with an answer.
async fn busy(served: &Served) -> TcpStream {
    let mut socket = served.connect().await;
    send(&mut socket, b"GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(within(socket.read_u8()).await.expect("the head"), b'H');
    socket
}

/// Whether the connection stays open while nothing is sent.
async fn is_open(socket: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    tokio::time::timeout(SHORT, socket.read_to_end(&mut rest)).await.is_err()
}

/// A connection that waits for its client after an answer.
async fn idle(served: &Served) -> TcpStream {
    let mut socket = served.connect().await;
    send(&mut socket, GET).await;
    answer(&mut socket).await;
    socket
}

#[tokio::test]
async fn a_new_connection_gets_the_slot_of_the_one_that_waits_longest() {
    let served = served(with_endless(), Limits { max_sockets: 3, ..limits() }).await;
    let mut busy = busy(&served).await;
    let (mut older, mut newer) = (idle(&served).await, idle(&served).await);
    for _ in 0..5 {
        let newest = idle(&served).await;
        assert_eq!(rest(&mut older).await, "", "it is closed without a word");
        (older, newer) = (newer, newest);
    }
    for socket in [&mut older, &mut newer] {
        send(socket, GET).await;
        answer(socket).await;
    }
    assert!(is_open(&mut busy).await, "a running request keeps its connection");
}

#[tokio::test]
async fn connections_beyond_the_cap_are_told_so_and_a_freed_place_is_used() {
    let served = served(with_endless(), Limits { max_sockets: 2, ..limits() }).await;
    let (one, mut two) = (busy(&served).await, busy(&served).await);
    for path in ["/mcp", "/api/v1/mcp/tools"] {
        let mut three = served.connect().await;
        send(
            &mut three,
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n").as_bytes(),
        )
        .await;
        // The answer must outlive what comes after it.
        send(&mut three, b"12345").await;
        let answer = rest(&mut three).await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 5"), "{answer}");
        let kind = if path == "/mcp" { "application/json\r" } else { "application/problem+json\r" };
        assert!(answer.contains(kind) && answer.contains("too_many_connections"), "{answer}");
    }
    let mut silent = served.connect().await;
    assert_eq!(rest(&mut silent).await, "", "it is closed though it said nothing");
    drop(one);
    let freed = async {
        loop {
            let mut socket = served.connect().await;
            let mut head = [0; 12];
            let answered = socket.write_all(GET).await.is_ok() && socket.read_exact(&mut head).await.is_ok();
            if answered && head.ends_with(b"200") {
                return;
            }
        }
    };
    within(freed).await;
    assert!(is_open(&mut two).await);
}

#[tokio::test]
async fn a_flood_beyond_the_cap_is_not_worth_more_than_a_few_answers() {
    let served = served(with_endless(), Limits { max_sockets: 1, ..limits() }).await;
    let mut one = busy(&served).await;
    // Silent, so that each keeps its place as long as it can.
    let mut held = Vec::new();
    for _ in 0..AT_ONCE {
        held.push(served.connect().await);
    }
    let mut more = served.connect().await;
    let _ = more.write_all(GET).await; // it may be closed by now
    assert_eq!(rest(&mut more).await, "", "closed without a word");
    assert!(is_open(&mut one).await);
    drop(held);
}
