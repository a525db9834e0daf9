//! B1: an effect under a business key exists once.

use std::collections::BTreeMap;

use super::Options;
use crate::event::{Effect, Event, What};
use crate::history::History;
use crate::verdict::Judgement;

/// The tries of one key at the sink, in order.
type Tries<'a> = Vec<(&'a Event, &'a Effect)>;

/// B1. However often an effect under a business key is tried, it is applied once. The sink tells every try, whether it
/// applied it, and whether it refused it as a repetition: one that applies what it has applied before has two effects.
/// The keys of [`Options::business_keys`] must have their effect; one that was tried too seldom proves nothing.
///
/// Unknown when the sink refused as a repetition what it had not applied: then the recording contradicts itself.
pub fn once(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("B1");
    let mut keys: BTreeMap<&str, Tries<'_>> = BTreeMap::new();
    for event in history.events() {
        if let What::Effect(effect) = &event.what
            && let Some(key) = effect.business_key.as_deref()
        {
            keys.entry(key).or_default().push((event, effect));
        }
    }
    let (mut effects, mut repetitions) = (0_u64, 0_u64);
    for (key, tries) in &keys {
        let applied: Vec<u64> = tries.iter().filter(|(_, one)| one.took).map(|(event, _)| event.i).collect();
        effects += applied.len() as u64;
        repetitions += tries.iter().filter(|(_, one)| one.repeated).count() as u64;
        if applied.len() > 1 {
            word.violated(format!("the effect under {key} exists {} times", applied.len()), None, &applied);
        }
        let first = applied.first().copied().unwrap_or(u64::MAX);
        if let Some((event, _)) = tries.iter().find(|(event, one)| one.repeated && event.i < first) {
            word.unknown(format!("the sink refused {key} as repeated before it had applied it"), &[event.i]);
        }
    }
    for (key, wanted) in &options.business_keys {
        expected(&mut word, key, keys.get(key.as_str()).map_or(&[], Vec::as_slice), *wanted);
    }
    word.stat("looked_at", keys.len() as f64);
    word.stat("effects", effects as f64);
    word.stat("repetitions", repetitions as f64);
    vec![word]
}

/// A key whose effect must exist, after so many tries at least.
fn expected(word: &mut Judgement, key: &str, tries: &[(&Event, &Effect)], wanted: u64) {
    let events: Vec<u64> = tries.iter().map(|(event, _)| event.i).collect();
    if (tries.len() as u64) < wanted {
        word.unknown(format!("{key} was tried {} times, and {wanted} are meant", tries.len()), &events);
    } else if tries.iter().all(|(_, one)| !one.took) {
        word.violated(format!("there is no effect under {key}"), None, &events);
    }
}
