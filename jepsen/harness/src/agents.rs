//! What stands around the cluster: clients, mock executors, the sink, and who looks at the replicas.
//!
//! Each agent is a future that runs until its work is over or it is told to stop. It knows addresses alone:
//! whoever starts it decides in which network namespace its thread lives.

pub mod client;
pub mod executor;
pub mod final_reads;
pub mod http;
pub mod jobs;
pub mod knocker;
pub mod load;
pub mod prober;
pub mod recorder;
pub mod server;
pub mod sink;
pub mod verify;

use orloj_jepsen_agents::Now;
use orloj_wire::clock::{Clock as _, SystemClock};

use crate::wait::monotonic;

/// Both clocks of this machine.
pub fn now() -> Now {
    let mono_ns = u64::try_from(monotonic().as_nanos()).unwrap_or(u64::MAX);
    Now { mono_ns, wall_ms: SystemClock::new().wall_ms() }
}
