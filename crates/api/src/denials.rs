//! Calls that this replica refused, on their way to the audit.
//!
//! Whoever knocks must not fill a disk with it: calls that are alike are counted together, few kinds are told apart,
//! and they are written down once every few seconds. What is beyond is counted under one name.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orloj_model::access::Denial;

/// Kinds of refused calls that are told apart between two writings.
const KINDS: usize = 20;
/// The name under which the others are counted.
const OTHERS: &str = "(others)";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    access_key: String,
    action: &'static str,
    code: &'static str,
}

#[derive(Debug)]
struct Last {
    address: String,
    request_id: String,
    count: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Denials {
    kinds: Mutex<BTreeMap<Kind, Last>>,
}

impl Denials {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<Kind, Last>> {
        // Nothing that holds this lock can panic half-way through a change.
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call was refused.
    pub fn add(
        &self,
        access_key: Option<&str>,
        action: &'static str,
        code: &'static str,
        address: String,
        request_id: &str,
    ) {
        let mut kinds = self.locked();
        let access_key = access_key.unwrap_or_default().to_owned();
        let mut kind = Kind { access_key, action, code };
        if !kinds.contains_key(&kind) && kinds.len() >= KINDS {
            kind = Kind { access_key: OTHERS.to_owned(), action: OTHERS, code };
        }
        let request_id = request_id.to_owned();
        let last =
            kinds.entry(kind).or_insert(Last { address: String::new(), request_id: String::new(), count: 0 });
        *last = Last { address, request_id, count: last.count.saturating_add(1) };
    }

    /// Takes what has come together.
    pub fn take(&self) -> Vec<Denial> {
        std::mem::take(&mut *self.locked())
            .into_iter()
            .map(|(kind, last)| Denial {
                access_key: kind.access_key,
                action: kind.action.to_owned(),
                code: kind.code.to_owned(),
                address: last.address,
                request_id: last.request_id,
                count: last.count,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_calls_are_counted_together_and_few_kinds_are_told_apart() {
        let denials = Denials::default();
        for number in 0..1_000 {
            let key = format!("ak_{}", number % 100);
            denials.add(Some(&key), "submit", "invalid_signature", format!("10.0.0.{}", number % 7), "r");
            denials.add(Some("ak_0"), "submit", "invalid_signature", "h".into(), &number.to_string());
        }
        let taken = denials.take();
        assert!(taken.len() <= KINDS + 1, "{}", taken.len());
        assert_eq!(taken.iter().map(|denial| denial.count).sum::<u32>(), 2_000);
        let first = taken.iter().find(|denial| denial.access_key == "ak_0").unwrap();
        assert_eq!((first.count, first.request_id.as_str()), (1_010, "999"));
        assert!(taken.iter().any(|denial| denial.access_key == OTHERS));
        assert_eq!(denials.take(), []);
    }
}
