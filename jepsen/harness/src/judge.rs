//! Judges a history by the checkers of the core, and by what the harness alone knows of its run.

use orloj_jepsen_core::check::{self, Report};
use orloj_jepsen_core::event::What;
use orloj_jepsen_core::history::History;
use orloj_jepsen_core::verdict::Judgement;

use crate::plan::RunOptions;
use crate::run::trial::KEY;

/// Tries of the trial's task: the first and every retry.
const TRIES: usize = 6;

/// The word on a run.
pub fn judge(history: &History, options: &RunOptions) -> Report {
    let mut report = check::judge(history, &options.check);
    if options.trial {
        let word = business_key(history);
        report.validity = report.validity.and(word.validity);
        report.judgements.push(word);
    }
    report
}

/// B1. The effect under the trial's business key exists exactly once, however often it was tried.
fn business_key(history: &History) -> Judgement {
    let mut word = Judgement::of("B1");
    let (mut tries, mut took) = (Vec::new(), Vec::new());
    for event in history.events() {
        if let What::Effect(effect) = &event.what
            && effect.business_key.as_deref() == Some(KEY)
        {
            tries.push(event.i);
            took.extend(effect.took.then_some(event.i));
        }
    }
    word.stat("tries", tries.len() as f64);
    word.stat("effects", took.len() as f64);
    if took.len() > 1 {
        word.violated(format!("the effect under {KEY} took {} times", took.len()), None, &took);
    } else if took.is_empty() {
        word.violated(format!("there is no effect under {KEY}"), None, &tries);
    }
    if tries.len() < TRIES {
        word.unknown(format!("it was tried {} times, and {TRIES} are meant", tries.len()), &tries);
    }
    word
}

#[cfg(test)]
mod tests {
    use orloj_jepsen_core::Validity;
    use orloj_jepsen_core::event::{Effect, Event, Kind, VERSION};

    use super::*;

    fn tried(took: &[bool]) -> Judgement {
        let effect = |(place, took): (u64, &bool)| Event {
            v: VERSION,
            i: 0,
            mono_ns: place,
            src: "sink".into(),
            proc: 0,
            kind: Kind::Event,
            node: None,
            key: None,
            what: What::Effect(Effect { business_key: Some(KEY.into()), took: *took, ..Effect::default() }),
            err: None,
            meta: Default::default(),
        };
        business_key(&History::merge((0..).zip(took).map(effect).collect()))
    }

    #[test]
    fn the_effect_exists_once_after_many_tries() {
        assert_eq!(tried(&[true, false, false, false, false, false]).validity, Validity::Valid);
        assert_eq!(tried(&[true, false, false, false, false, true]).validity, Validity::Invalid);
        assert_eq!(tried(&[false; 6]).validity, Validity::Invalid);
        assert_eq!(tried(&[true, false]).validity, Validity::Unknown);
    }
}
