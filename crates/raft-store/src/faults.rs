//! The one word that ends a node: why its process must stop.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// Where every part of a node reports that it cannot go on. The first report stands.
#[derive(Debug, Clone)]
pub struct Faults(Arc<watch::Sender<Option<String>>>);

impl Faults {
    /// No fault yet.
    pub fn new() -> Self {
        Faults(Arc::new(watch::Sender::new(None)))
    }

    /// Reports that the node must stop.
    pub fn raise(&self, reason: impl fmt::Display) {
        self.0.send_if_modified(|fault| {
            let first = fault.is_none();
            if first {
                tracing::error!(%reason, "the node must stop");
                *fault = Some(reason.to_string());
            }
            first
        });
    }

    /// The reason, once there is one.
    pub fn watch(&self) -> watch::Receiver<Option<String>> {
        self.0.subscribe()
    }

    /// Whether there is one.
    pub fn raised(&self) -> bool {
        self.0.borrow().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stands() {
        let faults = Faults::new();
        assert!(!faults.raised());
        faults.raise("one");
        faults.raise("two");
        assert_eq!(faults.watch().borrow().as_deref(), Some("one"));
    }
}
