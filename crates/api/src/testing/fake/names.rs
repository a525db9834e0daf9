//! Where the names of callbacks lead in tests.

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use orloj_model::Clock as _;
use orloj_model::id::Millis;
use orloj_model::time::ManualClock;
use orloj_scheduler::callback::Resolver;

use super::T;

/// When the name that leads inside later does, in milliseconds after every test has begun.
const LATER_MS: Millis = 60_000;

/// Knows one name that leads inside as well as outside, and one that leads inside later.
pub(super) struct FakeNames {
    pub(super) clock: Arc<ManualClock>,
}

impl Resolver for FakeNames {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
        let (outside, inside) = (IpAddr::from([203, 0, 114, 9]), IpAddr::from([10, 0, 0, 5]));
        let is_later = self.clock.wall_ms() >= T * 1000 + LATER_MS;
        let found = match host.split('.').next() {
            Some("inside") => vec![outside, inside],
            Some("later") if is_later => vec![inside],
            Some("later") => vec![outside],
            _ => Vec::new(),
        };
        Box::pin(std::future::ready(found))
    }
}
