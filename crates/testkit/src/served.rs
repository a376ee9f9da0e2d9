//! A service on its own thread, which can be stopped like a crash and started again at the former address.
//!
//! It does not depend on the gateway, so fakes for unit tests can use it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread::JoinHandle;

use axum::Router;

/// A running service. It stops when this value is dropped. [`Served::kill`] keeps the state of its routes.
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
    /// Serves `routes` on loopback, on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(routes: Router) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let running = Some(Running::serve(listener, routes.clone()));
        Self { address, routes, running }
    }

    /// Returns its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops it like a crash: connections are cut, and when this returns the port is closed.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            let _ = running.stop.send(()); // it may have ended already
            let _ = running.thread.join();
        }
    }

    /// Starts it again at the former address.
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
