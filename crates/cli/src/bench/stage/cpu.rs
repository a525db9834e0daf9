//! CPU time of the cluster, of its clients and of the machine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orloj_bench::slices::Spent;
use orloj_bench::usage;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::Stage;

/// Between two looks of a [`CpuWatch`].
const LOOK: Duration = Duration::from_secs(1);

/// CPU time since some beginning, in s.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    /// Of the whole machine.
    pub machine_s: f64,
    /// Of the replicas, of the bench and its parts, and of those of them that have ended.
    pub bench_s: f64,
}

/// Notes the CPU time of replicas and clients once a second, for as long as it lives.
pub struct CpuWatch {
    noted: Arc<Mutex<Vec<Spent>>>,
    _looks: AbortOnDropHandle<()>,
}

impl CpuWatch {
    /// What was noted by now, in order of time.
    pub fn spent(&self) -> Vec<Spent> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Stage {
    /// CPU time of the whole machine and of the bench so far; `None` where not all of its processes are known.
    pub fn cpu(&self) -> Option<Cpu> {
        let (executors_s, load_s) = self.others_cpu_s();
        let bench_s = usage::own_cpu_s() + self.cluster.alive_cpu_s()? + executors_s + load_s;
        Some(Cpu { machine_s: usage::machine_cpu_s(), bench_s })
    }

    /// CPU time of the executors and of the load since they started, in s.
    pub fn others_cpu_s(&self) -> (f64, f64) {
        let of = |pid| usage::of(pid).cpu_s;
        (self.executors.as_ref().map_or(0.0, |executors| of(executors.pid)), of(self.load.pid()))
    }

    /// Begins to note the CPU time that the replicas' processes and the clients spend from now on; `None` where the
    /// replicas' are not known.
    pub fn watch_cpu(&self) -> Option<CpuWatch> {
        let replicas: Vec<u32> = self.cluster.processes().into_iter().map(|(_, pid)| pid).collect();
        if replicas.is_empty() {
            return None;
        }
        let executors = self.executors.as_ref().map(|executors| executors.pid);
        let clients: Vec<u32> = executors.into_iter().chain([self.load.pid()]).collect();
        let now = move || {
            let sum_s = |pids: &[u32]| pids.iter().map(|pid| usage::of(*pid).cpu_s).sum::<f64>();
            (sum_s(&replicas), sum_s(&clients))
        };
        let noted: Arc<Mutex<Vec<Spent>>> = Arc::default();
        let (begin, before, kept) = (Instant::now(), now(), Arc::clone(&noted));
        let looks = async move {
            let mut ticks = interval(LOOK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let (replicas_s, clients_s) = now();
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(Spent {
                    at_s: begin.elapsed().as_secs_f64(),
                    replicas_s: replicas_s - before.0,
                    clients_s: clients_s - before.1,
                });
            }
        };
        Some(CpuWatch { noted, _looks: AbortOnDropHandle::new(tokio::spawn(looks)) })
    }
}
