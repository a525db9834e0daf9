//! Every checker against small histories whose verdict is known.
//!
//! `jepsen/golden/<ID>/` holds them: what begins with `good` keeps the invariant, `bad` breaks it, and `unknown`
//! does not show enough to tell. A history is judged for its folder's invariant alone. The bounds are the
//! defaults, or those in the folder's `options.json`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use orloj_jepsen_core::check::{Options, judge};
use orloj_jepsen_core::{History, Judgement, Validity};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden")
}

/// What lies in a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> =
        read.map(|entry| entry.expect("a folder that can be read").path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8")
}

fn options(folder: &Path) -> Options {
    let path = folder.join("options.json");
    if !path.exists() {
        return Options::default();
    }
    serde_json::from_str(&fs::read_to_string(&path).expect("a file that can be read"))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn history(path: &Path) -> History {
    let file = BufReader::new(File::open(path).expect("a file that can be read"));
    let events = History::read_lines(file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    History::merge(events)
}

/// What is wrong with the judgement of the golden history at `path`.
fn faults(path: &Path, id: &str, options: &Options) -> Vec<String> {
    let history = history(path);
    let report = judge(&history, options);
    let Some(judgement) = report.judgements.iter().find(|judgement| judgement.id == id) else {
        return vec![format!("no checker judges {id}")];
    };
    let mut faults = Vec::new();
    let expected = match name(path) {
        name if name.starts_with("good") => Validity::Valid,
        name if name.starts_with("bad") => Validity::Invalid,
        name if name.starts_with("unknown") => Validity::Unknown,
        name => return vec![format!("{name} begins with neither good, bad nor unknown")],
    };
    if judgement.validity != expected {
        faults.push(format!("is {:?}, not {expected:?}: {:#?}", judgement.validity, judgement.anomalies));
    }
    let shown = judgement.anomalies.iter().filter(|anomaly| !anomaly.events.is_empty()).count();
    if expected == Validity::Invalid && shown == 0 {
        faults.push("no anomaly names an event".to_owned());
    }
    faults.extend(unknown_events(judgement, &history));
    faults
}

fn unknown_events(judgement: &Judgement, history: &History) -> Vec<String> {
    let named = judgement.anomalies.iter().flat_map(|anomaly| &anomaly.events);
    named
        .filter(|event| history.event(**event).is_none())
        .map(|event| format!("there is no event {event}"))
        .collect()
}

#[test]
fn every_golden_history_has_its_verdict() {
    let mut all = Vec::new();
    let mut judged = 0;
    for folder in entries(&golden()) {
        let options = options(&folder);
        let is_history = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
        for path in entries(&folder).into_iter().filter(is_history) {
            judged += 1;
            let of_path = faults(&path, name(&folder), &options);
            all.extend(
                of_path.into_iter().map(|fault| format!("{}/{}: {fault}", name(&folder), name(&path))),
            );
        }
    }
    assert!(judged > 0, "there are no golden histories");
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn every_live_invariant_has_histories() {
    // A checker answers with its invariants whatever the history holds.
    let live: BTreeSet<String> = judge(&History::default(), &Options::default())
        .judgements
        .into_iter()
        .map(|judgement| judgement.id)
        .collect();
    let folders: BTreeSet<String> = entries(&golden()).iter().map(|path| name(path).to_owned()).collect();
    assert_eq!(folders, live, "golden histories and live invariants");
    for id in live {
        let names: Vec<String> =
            entries(&golden().join(&id)).iter().map(|path| name(path).to_owned()).collect();
        let has = |begin: &str| names.iter().any(|name| name.starts_with(begin));
        assert!(has("good"), "{id} has no good history");
        // What must have been exercised is never broken, only missing.
        assert!(has("bad") || (has("unknown") && id.starts_with('H')), "{id} has no bad history");
    }
}

#[test]
fn a_whole_run_breaks_no_invariant() {
    // The other good histories show what their own checker needs, and leave out what others look for.
    let report = judge(&history(&golden().join("A2/good.jsonl")), &Options::default());
    let broken = report.judgements.iter().filter(|judgement| judgement.validity == Validity::Invalid);
    assert_eq!(broken.collect::<Vec<_>>(), Vec::<&Judgement>::new());
}
