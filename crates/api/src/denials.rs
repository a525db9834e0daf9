//! Calls that this replica refused, on their way to the audit.
//!
//! Whoever knocks must not fill a disk with it: calls that are alike are counted together, few kinds are told apart,
//! and they are written down once every few seconds. What is beyond is counted by the address that it came from, and
//! beyond a number of these all together: so many kinds at once hide what they were, and not where they came from.
//!
//! What was refused behind a good signature has places of its own: whoever has no key at all can claim any number of
//! them, and must not hide by it what somebody with a key tried.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orloj_model::access::Denial;
use orloj_wire::problem::Code;

/// How many of one class are told apart between two writings.
#[derive(Debug, Clone, Copy)]
struct Places {
    /// Kinds of refused calls.
    kinds: usize,
    /// Addresses of those beyond.
    addresses: usize,
}

/// Of what was refused behind a good signature.
const SIGNED: Places = Places { kinds: 20, addresses: 4 };
/// Of everything else.
const UNSIGNED: Places = Places { kinds: 16, addresses: 12 };
/// The name under which the others are counted.
const OTHERS: &str = "(others)";

/// Whether a call with this refusal was signed well, by who is named as having made it. A call that is repeated was
/// signed by somebody, and not for whoever repeats it.
pub fn is_signed(code: &str) -> bool {
    let code = Code::from_text(code);
    code.is_some_and(|code| {
        code == Code::CallbackUrlNotAllowed || (code.status() == 403 && code != Code::CertificateDenied)
    })
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    access_key: String,
    action: String,
    code: String,
    /// Of the others alone.
    address: String,
}

impl Kind {
    fn of(denial: &Denial) -> Kind {
        Kind {
            access_key: denial.access_key.clone(),
            action: denial.action.clone(),
            code: denial.code.clone(),
            address: if denial.action == OTHERS { denial.address.clone() } else { String::new() },
        }
    }

    fn other(code: &str, address: &str) -> Kind {
        let (access_key, action) = (OTHERS.to_owned(), OTHERS.to_owned());
        Kind { access_key, action, code: code.to_owned(), address: address.to_owned() }
    }
}

#[derive(Debug, Default)]
struct Last {
    address: String,
    request_id: String,
    count: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Denials {
    classes: Mutex<Classes>,
}

/// What has come together, by class.
#[derive(Debug, Default)]
struct Classes {
    signed: BTreeMap<Kind, Last>,
    unsigned: BTreeMap<Kind, Last>,
}

impl Denials {
    fn locked(&self) -> MutexGuard<'_, Classes> {
        // Nothing that holds this lock can panic half-way through a change.
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls were refused.
    pub fn add(&self, denial: Denial) {
        let mut classes = self.locked();
        let last = classes.place(&denial);
        let count = last.count.saturating_add(denial.count);
        *last = Last { address: denial.address, request_id: denial.request_id, count };
    }

    /// Takes what has come together.
    pub fn take(&self) -> Vec<Denial> {
        let Classes { signed, unsigned } = std::mem::take(&mut *self.locked());
        signed
            .into_iter()
            .chain(unsigned)
            .map(|(kind, last)| Denial {
                access_key: kind.access_key,
                action: kind.action,
                code: kind.code,
                address: last.address,
                request_id: last.request_id,
                count: last.count,
            })
            .collect()
    }

    /// Gives back what was taken and could not be written down. What has come since is newer.
    pub fn put_back(&self, mut denials: Vec<Denial>) {
        // The others take no place of a kind that has a name.
        denials.sort_by_key(|denial| denial.action == OTHERS);
        let mut classes = self.locked();
        for denial in denials {
            let last = classes.place(&denial);
            last.count = last.count.saturating_add(denial.count);
            if last.request_id.is_empty() {
                (last.address, last.request_id) = (denial.address, denial.request_id);
            }
        }
    }
}

impl Classes {
    /// Where a refused call is counted.
    fn place(&mut self, denial: &Denial) -> &mut Last {
        let (kinds, places) = match is_signed(&denial.code) {
            true => (&mut self.signed, SIGNED),
            false => (&mut self.unsigned, UNSIGNED),
        };
        let mut kind = Kind::of(denial);
        if !kinds.contains_key(&kind) && kinds.len() >= places.kinds {
            kind = Kind::other(&denial.code, &denial.address);
        }
        if !kinds.contains_key(&kind) && kinds.len() >= places.kinds + places.addresses {
            kind = Kind::other(&denial.code, "");
        }
        kinds.entry(kind).or_default()
    }
}

#[cfg(test)]
mod tests {
    use orloj_model::access::DENIALS_PER_COMMAND;

    use super::*;
    use crate::outcome::is_denial;

    fn denial(access_key: &str, address: &str, request_id: &str) -> Denial {
        Denial {
            access_key: access_key.to_owned(),
            action: "submit".to_owned(),
            code: "invalid_signature".to_owned(),
            address: address.to_owned(),
            request_id: request_id.to_owned(),
            count: 1,
        }
    }

    fn total(taken: &[Denial]) -> u32 {
        taken.iter().map(|denial| denial.count).sum()
    }

    #[test]
    fn like_calls_are_counted_together_and_few_kinds_are_told_apart() {
        let denials = Denials::default();
        for number in 0..1_000 {
            denials.add(denial(&format!("ak_{}", number % 100), &format!("10.0.0.{}", number % 7), "r"));
            denials.add(denial("ak_0", "h", &number.to_string()));
        }
        let taken = denials.take();
        assert!(taken.len() <= UNSIGNED.kinds + 7, "{}", taken.len());
        assert_eq!(total(&taken), 2_000);
        let first = taken.iter().find(|denial| denial.access_key == "ak_0").unwrap();
        assert_eq!((first.count, first.request_id.as_str()), (1_010, "999"));
        assert_eq!(denials.take(), []);
    }

    #[test]
    fn who_claims_many_keys_hides_nobody_elses_address() {
        let denials = Denials::default();
        for number in 0..1_000 {
            denials.add(denial(&format!("ak_{number}"), "10.0.0.1", "r"));
        }
        denials.add(denial("ak_victim", "10.0.0.2", "r"));
        let other = denials.take().into_iter().find(|denial| denial.address == "10.0.0.2").unwrap();
        assert_eq!((other.access_key.as_str(), other.count), (OTHERS, 1));
        // Many addresses as well have a bound, below that of a command.
        for number in 0..1_000 {
            denials.add(denial(&format!("ak_{number}"), &format!("10.0.{number}.1"), "r"));
        }
        let taken = denials.take();
        assert_eq!((taken.len(), total(&taken)), (UNSIGNED.kinds + UNSIGNED.addresses + 1, 1_000));
    }

    #[test]
    fn who_has_no_key_hides_nothing_that_was_tried_with_one() {
        let denials = Denials::default();
        for number in 0..1_000 {
            denials.add(denial(&format!("ak_{number}"), &format!("10.0.{number}.1"), "r"));
        }
        let tried = |code: &str| Denial { code: code.to_owned(), ..denial("ak_good", "10.0.0.1", "r") };
        for code in ["callback_url_not_allowed", "scope_denied", "access_key_disabled", "executor_denied"] {
            denials.add(tried(code));
        }
        let taken = denials.take();
        let signed: Vec<_> = taken.iter().filter(|denial| denial.access_key == "ak_good").collect();
        assert_eq!(signed.len(), 4, "{taken:?}");
        assert!(signed.iter().all(|denial| denial.action == "submit"));
        // The same for what was given back.
        denials.put_back(taken);
        let again = denials.take();
        assert_eq!(again.iter().filter(|denial| denial.access_key == "ak_good").count(), 4);
    }

    #[test]
    fn all_that_comes_together_fits_into_one_command() {
        let denials = Denials::default();
        let is_recorded = |code: &Code| is_denial(*code) || *code == Code::NotFound;
        let refusals: Vec<Code> = Code::ALL.iter().copied().filter(is_recorded).collect();
        for number in 0..2_000 {
            for code in &refusals {
                let address = format!("10.{}.{}.1", number / 256, number % 256);
                let one = denial(&format!("ak_{number}"), &address, "r");
                denials.add(Denial { code: code.as_str().to_owned(), ..one });
            }
        }
        let taken = denials.take();
        assert_eq!(total(&taken) as usize, 2_000 * refusals.len());
        assert!(taken.len() <= DENIALS_PER_COMMAND, "{}", taken.len());
    }

    #[test]
    fn what_could_not_be_written_down_is_counted_with_what_has_come_since() {
        let denials = Denials::default();
        for number in 0..100 {
            denials.add(denial(&format!("ak_{number}"), &format!("10.0.0.{number}"), "old"));
        }
        let taken = denials.take();
        denials.add(denial("ak_0", "10.9.9.9", "new"));
        denials.put_back(taken.clone());
        denials.put_back(Vec::new());
        let again = denials.take();
        assert_eq!(total(&again), 101);
        let first = again.iter().find(|denial| denial.access_key == "ak_0").unwrap();
        assert_eq!((first.count, first.address.as_str(), first.request_id.as_str()), (2, "10.9.9.9", "new"));
        for _ in 0..10 {
            denials.put_back(taken.clone());
        }
        let many = denials.take();
        assert!(many.len() <= DENIALS_PER_COMMAND, "it grows by no taking and giving back: {}", many.len());
    }
}
