//! How busy the machine is.

use crate::options::cores;

/// The load of the last minute as a share of all cores, in per cent; 0 where the system does not tell.
pub(crate) fn cpu_pct() -> f64 {
    match sysinfo::System::load_average() {
        Ok(load) => load.one / f64::from(cores()) * 100.0,
        Err(_) => 0.0,
    }
}
