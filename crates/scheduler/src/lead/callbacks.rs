//! Begins to deliver callbacks with the leadership; they end with it.

use super::Leader;
use super::work::Done;
use crate::callback::{Delivery, OwnListeners};

impl Leader<'_> {
    pub(super) fn deliver_callbacks(&mut self) {
        let Some(callbacks) = self.shared.callbacks.clone() else { return };
        let delivery = Delivery {
            store: self.shared.store.clone(),
            round: self.round,
            clock: self.shared.clock.clone(),
            callbacks,
            metrics: self.shared.metrics.clone(),
            own: OwnListeners::default(),
        };
        let events = self.shared.store.events();
        self.spawn(async move { Done::Broken(delivery.run(events).await) });
    }
}
