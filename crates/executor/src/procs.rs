//! Processes of attempts: asked for, and found again by a mark in their environment.
//!
//! Every process that a command starts inherits the mark. So the processes of an executor that was killed
//! can be ended by its next life, and those that left their process group by the attempt's end.

use std::io;

/// The environment variable that carries the mark.
pub(crate) const MARK_VARIABLE: &str = "ORLOJ_PROCESS_MARK";
/// Passes over the process table; each ends what the one before it had missed while it forked.
const PASSES: usize = 10;

/// What of the mark has to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// All of it: one attempt.
    Whole,
    /// Its start: every attempt of one executor.
    Start,
}

/// Signals every process of a group; signal 0 only asks. Says whether there was one.
pub(crate) fn signal_group(id: u32, number: i32) -> bool {
    // 0 and 1 would mean this process's own group and every process.
    i32::try_from(id).is_ok_and(|id| id > 1 && signal(-id, number).is_ok())
}

/// Whether a process of a group still runs. One that has ended and waits for its parent to collect it does
/// not: under a parent that is slow to do so, or never does, it would count for ever.
pub(crate) fn group_runs(id: u32) -> bool {
    signal_group(id, 0) && i32::try_from(id).is_ok_and(|id| !is_dead(id))
}

/// Whether the process table shows nothing but ended processes in a group; `false` where there is none to read.
fn is_dead(group: i32) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else { return false };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut seen = false;
    for stat in pids.filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()) {
        if let Some((state, of)) = state_and_group(&stat)
            && of == group
        {
            seen = true;
            if !matches!(state, 'Z' | 'X') {
                return false;
            }
        }
    }
    seen
}

/// State and process group from the line in `/proc/<pid>/stat`, whose second field is a name in brackets that
/// may hold anything.
fn state_and_group(stat: &str) -> Option<(char, i32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

/// Kills every process with the mark, and says how many it found. Only where the system shows environments
/// (Linux); elsewhere it finds none.
pub(crate) async fn kill_marked(mark: &str, how: Match) -> usize {
    let mark = mark.to_owned();
    tokio::task::spawn_blocking(move || kill_all(&mark, how)).await.unwrap_or(0)
}

fn kill_all(mark: &str, how: Match) -> usize {
    let mut killed = 0;
    for _ in 0..PASSES {
        let found = marked(mark, how);
        if found.is_empty() {
            break;
        }
        for pid in found {
            killed += usize::from(signal(pid, libc::SIGKILL).is_ok());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    killed
}

fn marked(mark: &str, how: Match) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| u32::try_from(*pid).is_ok_and(|pid| pid != own))
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| carries(&environ, mark, how))
        })
        .collect()
}

/// Whether an environment block (entries that end with a zero byte) carries the mark. Pure.
fn carries(environ: &[u8], mark: &str, how: Match) -> bool {
    let wanted = format!("{MARK_VARIABLE}={mark}");
    environ.split(|byte| *byte == 0).any(|entry| match how {
        Match::Whole => entry == wanted.as_bytes(),
        Match::Start => entry.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'.')),
    })
}

#[allow(unsafe_code, reason = "kill(2) has no safe form in std")]
fn signal(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes two integers and touches no memory of this process.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_group_are_read_behind_any_name() {
        assert_eq!(state_and_group("7 (sleep) S 1 42 42 0 -1"), Some(('S', 42)));
        assert_eq!(state_and_group("7 (a) Z 9 (b) R 1 5 5"), Some(('R', 5)));
        assert_eq!(state_and_group("7 (cut"), None);
    }

    #[test]
    fn a_group_of_ended_processes_does_not_run() {
        use std::os::unix::process::CommandExt as _;
        let mut child = std::process::Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let group = child.id();
        assert!(group_runs(group));
        child.kill().unwrap();
        // Not collected yet: in the process table until then.
        let ended = (0..5_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            !group_runs(group)
        });
        assert!(ended && signal_group(group, 0), "it is still in the table and does not count");
        child.wait().unwrap();
        assert!(!group_runs(group));
    }

    #[test]
    fn marks_are_compared_exactly() {
        let environ = b"A=1\0ORLOJ_PROCESS_MARK=m1.t.0.9\0B=2\0";
        assert!(carries(environ, "m1.t.0.9", Match::Whole) && carries(environ, "m1", Match::Start));
        assert!(!carries(environ, "m1.t.0.99", Match::Whole) && !carries(environ, "m1.t.0", Match::Whole));
        assert!(!carries(environ, "m", Match::Start) && !carries(b"", "m1", Match::Start));
        assert!(!carries(b"X=ORLOJ_PROCESS_MARK=m1.t.0.9\0", "m1.t.0.9", Match::Whole));
    }

    #[test]
    fn no_number_means_everybody() {
        assert!(!signal_group(0, 0) && !signal_group(1, 0) && !signal_group(u32::MAX, 0));
    }
}
