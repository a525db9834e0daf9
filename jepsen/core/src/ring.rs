//! The ring of executors, written down a second time, as slowly as it likes.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Points of an executor with the usual weight.
const POINTS: u32 = 160;
/// Places of a key.
const PLACES: u64 = 4;

/// To which of these executors, all of the usual weight, a key belongs: to whose point comes first clockwise from any
/// of the key's places. Empty when there are none.
pub fn owner<'a>(executors: &[&'a str], key: &str) -> &'a str {
    let number = xxh3_64(key.as_bytes()).to_le_bytes();
    let places: Vec<u64> = (0..PLACES).map(|place| xxh3_64_with_seed(&number, place)).collect();
    let distance = |executor: &&&str| {
        let points = (0..POINTS).map(|point| xxh3_64(&[executor.as_bytes(), &point.to_le_bytes()].concat()));
        let gaps = points.flat_map(|point| places.iter().map(move |place| point.wrapping_sub(*place)));
        gaps.min().unwrap_or(u64::MAX)
    };
    executors.iter().min_by_key(distance).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_over_the_executors_and_stay_when_another_one_goes() {
        let keys: Vec<String> = (0..300).map(|number| format!("job-{number}")).collect();
        let three = ["e1", "e2", "e3"];
        for executor in three {
            let own = keys.iter().filter(|key| owner(&three, key) == executor).count();
            assert!((60..=140).contains(&own), "{executor} has {own} of 300");
        }
        for key in keys.iter().filter(|key| owner(&three, key) != "e3") {
            assert_eq!(owner(&["e1", "e2"], key), owner(&three, key));
        }
        assert_eq!(owner(&[], "job-1"), "");
    }
}
