//! A service on a thread of its own, which can be ended as a crash does and started again where it was.
//!
//! It is its own module, so that doubles which unit tests use too can use it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread::JoinHandle;

use axum::Router;

/// A running service. It ends with this value; what its routes know outlives [`Served::kill`].
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    routes: Router,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: tokio::sync::oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Served {
    /// Serves `routes` on loopback, on a port that was free.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(routes: Router) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let running = Some(Running::serve(listener, routes.clone()));
        Self { address, routes, running }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it as a crash does: connections are cut, and nobody listens when this returns.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            let _ = running.stop.send(()); // it has ended already
            let _ = running.thread.join();
        }
    }

    /// Starts it again at the same address.
    ///
    /// # Panics
    /// If another program has taken the port.
    pub fn restart(&mut self) {
        self.kill();
        let listener = TcpListener::bind(self.address).expect("its port is still free");
        self.running = Some(Running::serve(listener, self.routes.clone()));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    fn serve(listener: TcpListener, routes: Router) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        listener.set_nonblocking(true).expect("a socket");
        let thread = std::thread::spawn(move || {
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
                tokio::select! {
                    ended = axum::serve(listener, routes) => ended.expect("it serves"),
                    _ = stopped => {}
                }
            });
        });
        Self { stop, thread }
    }
}
