//! Writes of several small buffers as one.
//!
//! hyper gives the head and the body of a message as two buffers. The system takes one buffer (`send`) faster than
//! several (`writev`), so small buffers are copied into one of the thread. Large ones are written where they are.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// Bytes that are copied at most.
const SMALL: usize = 4 * 1024;

thread_local! {
    static JOINED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes `buffers` to `socket`, as one buffer if they are small.
pub fn poll_write_joined<S: AsyncWrite>(
    socket: Pin<&mut S>,
    context: &mut Context<'_>,
    buffers: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    match buffers {
        [one] => socket.poll_write(context, one),
        several if several.iter().map(|buffer| buffer.len()).sum::<usize>() <= SMALL => JOINED
            .with_borrow_mut(|joined| {
                joined.clear();
                for buffer in several {
                    joined.extend_from_slice(buffer);
                }
                socket.poll_write(context, joined)
            }),
        large => socket.poll_write_vectored(context, large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_socket::{FakeSocket, written_at_once};

    fn write(socket: &mut FakeSocket, buffers: &[&[u8]]) -> usize {
        written_at_once(buffers, |context, slices| poll_write_joined(Pin::new(socket), context, slices))
    }

    #[test]
    fn small_buffers_are_written_as_one_and_large_ones_where_they_are() {
        let (mut socket, large) = (FakeSocket::taking(5), vec![b'l'; SMALL]);
        assert_eq!(write(&mut socket, &[b"he", b"", b"ad"]), 4);
        // After a short write, nothing is left over for the next one.
        assert_eq!(write(&mut socket, &[b"long ", b"body"]), 5);
        assert_eq!(write(&mut socket, &[b"body"]), 4);
        assert_eq!(write(&mut socket, &[b"h", &large[1..]]), 5);
        assert_eq!(write(&mut socket, &[b"h", &large]), 5);
        assert_eq!(socket.written, b"headlong bodyhllllhllll");
        let buffers: Vec<_> = socket.writes.iter().map(|(_, buffers)| *buffers).collect();
        assert_eq!(buffers, [1, 1, 1, 1, 2]);
    }
}
