//! Ports that belong to one test, whether something listens on them or not.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port, held by sockets that are bound and never listen: connecting is refused, the test's own processes may listen
/// on it, and nobody is given it by chance.
pub struct Port {
    pub number: u16,
    _held: Vec<TcpSocket>,
}

impl Port {
    /// On 127.0.0.1.
    pub fn new() -> Self {
        let socket = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self { number: socket.local_addr().unwrap().port(), _held: vec![socket] }
    }

    /// The same one on 127.0.0.1 and on ::1.
    pub fn on_both_families() -> Self {
        loop {
            let Self { number, _held: mut held } = Self::new();
            if let Ok(socket) = bind((Ipv6Addr::LOCALHOST, number).into()) {
                held.push(socket);
                return Self { number, _held: held };
            }
        }
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
