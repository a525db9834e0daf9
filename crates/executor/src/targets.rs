//! Which replica to ask. Plain data.

use crate::options::replica_address;

/// The known replicas and the one that is believed to lead.
#[derive(Debug)]
pub(crate) struct Targets {
    replicas: Vec<String>,
    current: String,
}

impl Targets {
    /// Begins with the first of the configured addresses; there is at least one.
    pub(crate) fn new(replicas: Vec<String>) -> Self {
        let current = replicas.first().cloned().unwrap_or_default();
        Targets { replicas, current }
    }

    /// Whom to ask now.
    pub(crate) fn current(&self) -> String {
        self.current.clone()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.replicas.len()
    }

    /// `failed` did not answer or does not lead, and gave no hint: the next one, unless somebody has moved on.
    pub(crate) fn advance(&mut self, failed: &str) {
        if self.current != failed {
            return;
        }
        let at = self.replicas.iter().position(|replica| replica == failed);
        let next = at.map_or(0, |at| (at + 1) % self.replicas.len().max(1));
        if let Some(replica) = self.replicas.get(next) {
            self.current.clone_from(replica);
        }
    }

    /// Somebody says who leads. Says whether that is news and an address.
    pub(crate) fn hint(&mut self, leader: &str) -> bool {
        match replica_address(leader) {
            Ok(address) if address != self.current => {
                self.current = address;
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// The leader lists the replicas, itself first. Addresses that are none are left out; an empty list
    /// changes nothing.
    pub(crate) fn learn(&mut self, replicas: &[String]) {
        let addresses: Vec<String> =
            replicas.iter().filter_map(|replica| replica_address(replica).ok()).collect();
        if !addresses.is_empty() {
            self.replicas = addresses;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Targets {
        Targets::new(["a:1", "b:1", "c:1"].map(String::from).to_vec())
    }

    #[test]
    fn failures_go_round() {
        let mut targets = three();
        for expected in ["b:1", "c:1", "a:1"] {
            let current = targets.current();
            targets.advance(&current);
            assert_eq!(targets.current(), expected);
        }
        targets.advance("c:1");
        assert_eq!(targets.current(), "a:1", "a late failure of another one changes nothing");
    }

    #[test]
    fn hints_are_followed_and_left() {
        let mut targets = three();
        assert!(targets.hint("d:9"));
        assert_eq!(targets.current(), "d:9");
        assert!(!targets.hint("http://d:9") && !targets.hint("not an address"));
        targets.advance("d:9");
        assert_eq!(targets.current(), "a:1");
    }

    #[test]
    fn the_list_is_replaced_by_the_leaders() {
        let mut targets = three();
        targets.learn(&["x:1".to_owned(), "bad".to_owned()]);
        assert_eq!(targets.count(), 1);
        targets.learn(&[]);
        assert_eq!(targets.count(), 1);
    }
}
