//! L5: processes fail cleanly or not at all, and whoever only reads is not made to look guilty of it.

use std::collections::BTreeSet;

use super::Options;
use crate::event::{Event, What};
use crate::faults::{Installed, installed};
use crate::history::History;
use crate::spans::MS;
use crate::verdict::Judgement;

/// L5. No process panics. None ends by itself, except where the harness meant it to, or while a fault of its
/// storage or its resources was in force (or had been within the time that recovery takes). A replica says
/// `failed` in such a time only; and after its disk has space again it says `ok` and applies what was
/// committed, within the time that healing takes. That nothing acknowledged was lost meanwhile is for others
/// to judge. No read is refused for a nonce that was used before: clients sign each try anew, so it was a replica that
/// sent it twice.
pub fn clean_failure(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("L5");
    let faults = installed(history);
    let excused = |event: &Event| {
        let node = event.node.as_deref().unwrap_or_default();
        faults.iter().any(|one| {
            one.stops_processes()
                && one.fault.nodes.iter().any(|hit| hit == node)
                && (one.from_ns..=one.until_ns + options.recovery_ms * MS).contains(&event.mono_ns)
        })
    };
    let (mut exits, mut excuses) = (0_u64, 0_u64);
    let mut told: BTreeSet<(&str, u64)> = BTreeSet::new();
    for event in history.events() {
        let node = event.node.as_deref().unwrap_or("a process");
        match &event.what {
            What::Process(process) if process.state == "panicked" => {
                let line = process.line.as_deref().unwrap_or("without a word");
                word.violated(format!("{node} panicked: {line}"), None, &[event.i]);
            }
            What::Process(process) if process.state == "exited" => {
                exits += 1;
                if process.expected || excused(event) {
                    excuses += u64::from(!process.expected);
                    continue;
                }
                let line = process.line.as_deref().unwrap_or("without a word");
                let how = (process.code, process.signal);
                word.violated(
                    format!("{node} ended by itself (code, signal: {how:?}): {line}"),
                    None,
                    &[event.i],
                );
            }
            What::Get(_) | What::List(_) if event.err.as_deref() == Some("nonce_replayed") => {
                let what = "a read was refused as one that was sent twice, and each try is signed anew";
                word.violated(what.to_owned(), None, &[event.i]);
            }
            What::Probe(probe)
                if probe.state == "failed" && !excused(event) && told.insert((node, probe.life)) =>
            {
                word.violated(format!("{node} says that its storage has failed"), None, &[event.i]);
            }
            _ => {}
        }
    }
    word.stat("exits", exits as f64);
    word.stat("excused_exits", excuses as f64);
    let disks = faults.iter().filter(|one| one.fault.package == "disk" && one.undone);
    let came_back = disks.map(|disk| back(&mut word, history, disk, options)).sum::<u64>();
    word.stat("looked_at", (exits + came_back) as f64);
    word.stat("disks_judged", came_back as f64);
    vec![word]
}

/// Whether each replica whose disk had a fault is in order again in time; answers how many were judged. One
/// that met another fault before that is left to the heal at the end.
fn back(word: &mut Judgement, history: &History, disk: &Installed<'_>, options: &Options) -> u64 {
    let deadline = disk.until_ns + options.heal_ms * MS;
    let first = history.events().partition_point(|event| event.mono_ns < disk.until_ns);
    let after = &history.events()[first..];
    if after.last().is_none_or(|last| last.mono_ns < deadline) {
        return 0;
    }
    let in_time = &after[..after.partition_point(|event| event.mono_ns <= deadline)];
    let mut judged = 0;
    for node in &disk.fault.nodes {
        let another = in_time.iter().any(|event| match &event.what {
            What::Fault(fault) => fault.phase == "installed" && fault.nodes.contains(node),
            _ => false,
        });
        if another {
            continue;
        }
        judged += 1;
        let committed = in_time.iter().find_map(|event| match &event.what {
            What::Probe(probe) if probe.serving.is_some() => Some(probe.committed),
            _ => None,
        });
        let is_back = in_time.iter().any(|event| match &event.what {
            What::Probe(probe) => {
                event.node.as_ref() == Some(node)
                    && probe.state == "ok"
                    && probe.applied >= committed.unwrap_or(0)
            }
            _ => false,
        });
        if !is_back {
            let what =
                format!("{node} is not in order {} ms after the end of {}", options.heal_ms, disk.class());
            word.violated(what, None, &[disk.event]);
        }
    }
    judged
}
