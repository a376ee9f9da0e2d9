//! A listener whose connections are all taken.

use super::*;
use crate::load_shed::AT_ONCE;

#[tokio::test]
async fn connections_beyond_the_cap_are_told_so_and_a_freed_place_is_used() {
    let served = served(routes(), Limits { max_sockets: 2, ..limits() }).await;
    let (mut one, mut two) = (served.connect().await, served.connect().await);
    for socket in [&mut one, &mut two] {
        send(socket, GET).await;
        answer(socket).await;
    }
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
    send(&mut two, GET).await;
    answer(&mut two).await;
}

#[tokio::test]
async fn a_flood_beyond_the_cap_is_not_worth_more_than_a_few_answers() {
    let served = served(routes(), Limits { max_sockets: 1, ..limits() }).await;
    let mut one = served.connect().await;
    send(&mut one, GET).await;
    answer(&mut one).await;
    // Silent, so that each keeps its place as long as it can.
    let mut held = Vec::new();
    for _ in 0..AT_ONCE {
        held.push(served.connect().await);
    }
    let mut more = served.connect().await;
    let _ = more.write_all(GET).await; // it may be closed by now
    assert_eq!(rest(&mut more).await, "", "closed without a word");
    send(&mut one, GET).await;
    answer(&mut one).await;
    drop(held);
}
