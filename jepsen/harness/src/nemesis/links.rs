//! Which links a fault touches, and what several faults together make of one link.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::action::Action;
use crate::fabric::LinkRule;
use crate::hosts;

/// A directed link: from, to.
pub type Link = (String, String);

/// What a fault lays over the links between `targets` and everybody else. `other` is the one other replica that a
/// fault of a single edge means.
pub fn overlay(
    action: &Action,
    targets: &[String],
    all: &[String],
    other: Option<&str>,
) -> Vec<(Link, LinkRule)> {
    let Some(rule) = rule(action) else { return Vec::new() };
    let chosen: BTreeSet<&str> = targets.iter().map(String::as_str).collect();
    let hit = |name: &str| chosen.contains(name);
    let touches = |from: &str, to: &str| match action {
        Action::Split => hosts::is_replica(from) && hosts::is_replica(to) && hit(from) != hit(to),
        Action::Bridge => hosts::is_replica(from) && hosts::is_replica(to) && !hit(from) && !hit(to),
        Action::OneWayIn => hit(to) && !hit(from),
        Action::OneWayOut => hit(from) && !hit(to),
        Action::Edge => (hit(from) && other == Some(to)) || (hit(to) && other == Some(from)),
        Action::CutExecutors => {
            (hit(from) && hosts::is_executor(to)) || (hit(to) && hosts::is_executor(from))
        }
        Action::CutClients => (hit(from) && hosts::is_client(to)) || (hit(to) && hosts::is_client(from)),
        Action::Isolate | Action::HalfOpen => hit(from) != hit(to),
        _ => hit(from) || hit(to),
    };
    let mut found = Vec::new();
    for from in all {
        for to in all {
            if from != to && touches(from, to) {
                found.push(((from.clone(), to.clone()), rule));
            }
        }
    }
    found
}

/// The rule that a fault lays over each of its links; none when it touches none.
fn rule(action: &Action) -> Option<LinkRule> {
    let share = |percent: u8| f64::from(percent.min(100)) / 100.0;
    let plain = LinkRule::default();
    Some(match action {
        Action::Isolate
        | Action::Split
        | Action::Bridge
        | Action::OneWayIn
        | Action::OneWayOut
        | Action::Edge
        | Action::CutExecutors
        | Action::CutClients
        | Action::HalfOpen => LinkRule::cut(),
        Action::Delay { delay_ms, jitter_ms } => LinkRule {
            delay: Duration::from_millis(*delay_ms),
            jitter: Duration::from_millis(*jitter_ms),
            ..plain
        },
        Action::Loss { percent } => LinkRule::lossy(share(*percent)),
        Action::Duplicate { percent } => LinkRule { duplicate: share(*percent), ..plain },
        Action::Reorder { percent } => LinkRule { reorder: share(*percent), ..plain },
        Action::Rate { kbit } => LinkRule { rate_bytes_per_s: kbit * 1_000 / 8, ..plain },
        _ => return None,
    })
}

/// Every overlay that is in force, by the step that laid it.
#[derive(Debug, Default)]
pub struct Links {
    overlays: BTreeMap<u64, Vec<(Link, LinkRule)>>,
}

impl Links {
    /// Lays the overlay of a step, over its own one before. Returns every link whose rule may be another now.
    pub fn lay(&mut self, step: u64, overlay: Vec<(Link, LinkRule)>) -> BTreeMap<Link, LinkRule> {
        let mut touched: BTreeSet<Link> = overlay.iter().map(|(link, _)| link.clone()).collect();
        let before = self.overlays.insert(step, overlay).unwrap_or_default();
        touched.extend(before.into_iter().map(|(link, _)| link));
        self.rules(touched)
    }

    /// Takes the overlay of a step away.
    pub fn lift(&mut self, step: u64) -> BTreeMap<Link, LinkRule> {
        let lifted = self.overlays.remove(&step).unwrap_or_default();
        self.rules(lifted.into_iter().map(|(link, _)| link).collect())
    }

    fn rules(&self, links: BTreeSet<Link>) -> BTreeMap<Link, LinkRule> {
        let rule_of = |link: &Link| {
            let overlays = self.overlays.values().flatten().filter(|(other, _)| other == link);
            overlays.fold(LinkRule::default(), |all, (_, rule)| worse(all, *rule))
        };
        links.into_iter().map(|link| (link.clone(), rule_of(&link))).collect()
    }
}

/// Both rules on one link: the worse of each property.
fn worse(one: LinkRule, two: LinkRule) -> LinkRule {
    let rates = [one.rate_bytes_per_s, two.rate_bytes_per_s];
    LinkRule {
        up: one.up && two.up,
        delay: one.delay.max(two.delay),
        jitter: one.jitter.max(two.jitter),
        loss: one.loss.max(two.loss),
        duplicate: one.duplicate.max(two.duplicate),
        reorder: one.reorder.max(two.reorder),
        // 0 stands for no limit.
        rate_bytes_per_s: rates.into_iter().filter(|rate| *rate > 0).min().unwrap_or(0),
        corrupt: one.corrupt.max(two.corrupt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn touched(action: Action, targets: &[&str], other: Option<&str>) -> Vec<String> {
        let all = names(&["n1", "n2", "n3", "e1", "c1"]);
        let overlay = overlay(&action, &names(targets), &all, other);
        overlay.into_iter().map(|((from, to), _)| format!("{from}>{to}")).collect()
    }

    #[test]
    fn each_partition_cuts_its_own_links() {
        assert_eq!(touched(Action::Isolate, &["n1"], None).len(), 8);
        assert_eq!(touched(Action::Split, &["n1"], None), ["n1>n2", "n1>n3", "n2>n1", "n3>n1"]);
        assert_eq!(touched(Action::Bridge, &["n1"], None), ["n2>n3", "n3>n2"]);
        assert_eq!(touched(Action::OneWayIn, &["n1"], None), ["n2>n1", "n3>n1", "e1>n1", "c1>n1"]);
        assert_eq!(touched(Action::OneWayOut, &["n1"], None), ["n1>n2", "n1>n3", "n1>e1", "n1>c1"]);
        assert_eq!(touched(Action::Edge, &["n1"], Some("n3")), ["n1>n3", "n3>n1"]);
        assert_eq!(touched(Action::CutExecutors, &["n1"], None), ["n1>e1", "e1>n1"]);
        assert_eq!(touched(Action::CutClients, &["n2"], None), ["n2>c1", "c1>n2"]);
        assert!(touched(Action::Kill, &["n1"], None).is_empty());
        assert_eq!(touched(Action::Loss { percent: 5 }, &["n1", "n2", "n3"], None).len(), 18);
    }

    #[test]
    fn overlays_add_up_and_leave_nothing_behind() {
        let all = names(&["n1", "n2"]);
        let link = ("n1".to_owned(), "n2".to_owned());
        let mut links = Links::default();
        let delay = Action::Delay { delay_ms: 50, jitter_ms: 0 };
        links.lay(1, overlay(&delay, &names(&["n1"]), &all, None));
        let both = links.lay(2, overlay(&Action::Isolate, &names(&["n1"]), &all, None));
        assert_eq!((both[&link].up, both[&link].delay), (false, Duration::from_millis(50)));
        let late = links.lift(2);
        assert_eq!((late[&link].up, late[&link].delay), (true, Duration::from_millis(50)));
        assert!(links.lift(1)[&link].is_plain());
        assert!(links.lift(1).is_empty());
    }

    #[test]
    fn the_narrower_limit_counts() {
        let limit = |rate_bytes_per_s| LinkRule { rate_bytes_per_s, ..LinkRule::default() };
        assert_eq!(worse(limit(0), limit(7)).rate_bytes_per_s, 7);
        assert_eq!(worse(limit(9), limit(7)).rate_bytes_per_s, 7);
    }
}
