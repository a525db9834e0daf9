//! H2: the history is good enough to be judged.

use std::collections::BTreeSet;

use super::Options;
use crate::event::What;
use crate::history::History;
use crate::tables::final_tables;
use crate::verdict::Judgement;

/// H2. Unknown when too many operations stayed unknown, when the harness failed at a fault (it is neither
/// installed nor cleanly left out), when nothing was asked, when the run did not come to its end, or when the
/// table of a replica that answered at the end was not read whole.
pub fn conclusive(history: &History, options: &Options) -> Judgement {
    let mut word = Judgement::of("H2");
    unknown_share(&mut word, history, options);
    for event in history.events() {
        if let What::Fault(fault) = &event.what
            && fault.phase == "failed"
        {
            let what = format!("the harness failed at {}.{}: {}", fault.package, fault.name, fault.detail);
            word.unknown(what, &[event.i]);
        }
    }
    match history.phase("end") {
        Some(_) => whole_tables(&mut word, history),
        None => word.unknown("the run did not come to its end", &[]),
    }
    word
}

fn unknown_share(word: &mut Judgement, history: &History, options: &Options) {
    let operations = history.operations();
    let unknown: Vec<u64> = operations
        .iter()
        .filter(|operation| operation.is_unknown())
        .map(|operation| operation.invoke.i)
        .collect();
    word.stat("looked_at", operations.len() as f64);
    word.stat("unknown", unknown.len() as f64);
    if operations.is_empty() {
        word.unknown("nothing was asked", &[]);
        return;
    }
    let share = unknown.len() as f64 / operations.len() as f64;
    word.stat("unknown_share", share);
    if share > options.unknown_share {
        let what =
            format!("{share:.3} of the operations stayed unknown; at most {:.3} may", options.unknown_share);
        word.unknown(what, &unknown[..unknown.len().min(10)]);
    }
}

/// Every replica that was probed in the final phase owes its whole table.
fn whole_tables(word: &mut Judgement, history: &History) {
    let since = history.phase("final").unwrap_or(0);
    let answering: BTreeSet<&str> = history
        .events()
        .iter()
        .filter(|event| event.mono_ns >= since && matches!(event.what, What::Probe(_)))
        .filter_map(|event| event.node.as_deref())
        .collect();
    let tables = final_tables(history);
    word.stat("tables", tables.len() as f64);
    if tables.is_empty() {
        word.unknown("no table was read at the end", &[]);
        return;
    }
    for node in answering.iter().filter(|node| tables.iter().all(|table| table.node != **node)) {
        word.unknown(format!("the table of {node} was not read"), &[]);
    }
    for table in tables.iter().filter(|table| !table.is_whole()) {
        let (told, read) = (table.end.tasks, table.rows.len());
        let what = format!("the table of {} has {told} tasks, and {read} were recorded", table.node);
        word.unknown(what, &[table.event]);
    }
}
