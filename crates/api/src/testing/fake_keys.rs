//! The keys of a universe's secrets file.

use orloj_model::id::CallerId;
use orloj_scheduler::callback::Policy;
use orloj_wire::callback::{HostEntry, HostRule, WebhookSecret};
use orloj_wire::sign::Secret;

use super::fake::EXECUTOR_SECRET;
use super::{SECRET_A, SECRET_A2, SECRET_ADMIN, SECRET_B};
use crate::{Keyring, Limits, Sealer};

const SEALING_KEY: &str = "kek_0123456789abcdef0123456789abcdef01234567";

const OLDER_SEALING_KEY: &str = "kek_fedcba9876543210fedcba9876543210fedcba98";

fn sealer_of(keys: &[&str]) -> Sealer {
    let keys: Vec<_> = keys.iter().map(|key| Secret::new(*key).unwrap()).collect();
    Sealer::new(&keys).unwrap()
}

/// While one sealing key takes the place of another.
pub(super) fn sealer() -> Sealer {
    sealer_of(&[SEALING_KEY, OLDER_SEALING_KEY])
}

/// Before that.
pub(super) fn older_sealer() -> Sealer {
    sealer_of(&[OLDER_SEALING_KEY])
}

/// After that.
pub(super) fn newer_sealer() -> Sealer {
    sealer_of(&[SEALING_KEY])
}

pub(super) fn keyring() -> Keyring {
    let mut keyring = Keyring::new();
    let secret = |text: &str| Secret::new(text).unwrap();
    let caller = |name: &str| CallerId::new(name).unwrap();
    let fast = Limits {
        requests_per_s: 1e6,
        requests_burst: 100_000,
        submits_per_s: 1e6,
        submits_burst: 100_000,
        waiters: 100,
    };
    keyring.add_caller(caller("a"), "ak_A", secret(SECRET_A), fast).unwrap();
    keyring.add_caller(caller("a"), "ak_A2", secret(SECRET_A2), fast).unwrap();
    keyring.add_caller(caller("b"), "ak_B", secret(SECRET_B), Limits::default()).unwrap();
    keyring.add_caller(caller("b"), "ak_OFF", secret(SECRET_B), Limits::default()).unwrap();
    keyring.set_enabled("ak_OFF", false);
    let hosts = ["hooks.example.com", "inside.example.com", "later.example.com"].map(|host| {
        let host = host.to_owned();
        let entry = HostEntry { host, ports: vec![443], plain_http: false, allow_cidrs: vec![] };
        HostRule::new(&entry).unwrap()
    });
    let hosts = hosts.to_vec();
    keyring.set_callbacks(
        caller("a"),
        Policy { hosts, secrets: vec![WebhookSecret::of([7; 32])], unopened: false },
    );
    keyring.add_admin("adk_A", secret(SECRET_ADMIN), fast).unwrap();
    keyring.share_with_executors(secret(EXECUTOR_SECRET)).unwrap();
    keyring
}
