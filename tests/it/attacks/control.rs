//! A program that reads what an attack sends and keeps it, and does nothing else.
//!
//! It shows what the same attack costs other programs of the machine. The figures beside an attack on the gateway are
//! to be read against the figures beside this one: both share the processors with the client that attacks.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::bulk::MIB;

/// Threads that read, as many as the gateway has workers on two processors.
const THREADS: usize = 2;
/// Bytes that are kept, as many as the gateway keeps of its budget. Further bytes are read and dropped.
const KEPT: usize = 160 * MIB;

/// A running sink. It ends with this value.
pub struct Sink {
    pub address: String,
    stop: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Sink {
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address").to_string();
        let ((stop, stopped), kept) = (watch::channel(()), Arc::new(AtomicUsize::new(0)));
        let threads = (0..THREADS).map(|_| {
            let listener = listener.try_clone().expect("a socket");
            let (mut stopped, kept) = (stopped.clone(), Arc::clone(&kept));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(async {
                    // Changed never, closed at the end.
                    tokio::select! { _ = stopped.changed() => {}, () = accept(listener, kept) => {} }
                });
            })
        });
        Self { address, threads: threads.collect(), stop: Some(stop) }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[allow(clippy::disallowed_methods)] // its tasks end with the runtime
async fn accept(listener: TcpListener, kept: Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(keep(socket, Arc::clone(&kept)));
    }
}

async fn keep(mut socket: TcpStream, kept: Arc<AtomicUsize>) {
    let (mut held, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    while let Ok(count @ 1..) = socket.read(&mut piece).await {
        if kept.fetch_add(count, Ordering::Relaxed) < KEPT {
            held.extend_from_slice(&piece[..count]);
        }
    }
    kept.fetch_sub(held.len(), Ordering::Relaxed);
}
