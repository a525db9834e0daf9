//! The certificates of a demo cluster: an authority that is made once, and certificates that every start renews.

use crate::cert;
use crate::dev::plan::{Layout, Plan};
use orloj_net::Role;

/// Days that the authority is good for.
const AUTHORITY_DAYS: u32 = 3_650;
/// Days that a certificate is good for.
const DAYS: u32 = 365;

/// Makes what every process of the plan needs, and executors that are not in it.
///
/// # Errors
/// Files that cannot be read or written.
pub fn make(layout: &Layout, plan: &Plan, others: &[String]) -> anyhow::Result<()> {
    let dir = layout.certificates();
    let authority = cert::open_or_make(&dir, "dev", AUTHORITY_DAYS)?;
    let loopback = ["127.0.0.1".to_owned(), "::1".to_owned(), "localhost".to_owned()];
    for replica in &plan.replicas {
        let (name, address) = (replica.name(), replica.internal());
        cert::issue(&authority, &dir, &name, (Role::Replica, &address), &loopback, DAYS)?;
    }
    for id in plan.executors.iter().map(|executor| &executor.id).chain(others) {
        cert::issue(&authority, &dir, id, (Role::Executor, id), &loopback, DAYS)?;
    }
    Ok(())
}
