//! Where a connection comes from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The address of the other side; put into every request by the listener.
#[derive(Debug, Clone, Copy)]
pub struct Remote(pub SocketAddr);

impl Remote {
    /// The address of the other side; unspecified where a request came over no connection.
    pub fn of(extensions: &hyper::http::Extensions) -> IpAddr {
        extensions.get::<Remote>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |remote| remote.0.ip())
    }

    /// The other end of the connection, which no other one has at the same time; `None` where there is none.
    pub fn connection(extensions: &hyper::http::Extensions) -> Option<SocketAddr> {
        extensions.get::<Remote>().map(|remote| remote.0)
    }
}
