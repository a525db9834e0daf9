//! Scales: from values to places on an axis, with ticks that people can read.

/// Lengths of time that have a name, in ms.
const TIMES: [f64; 10] = [10.0, 100.0, 1e3, 1e4, 6e4, 6e5, 3.6e6, 3.6e7, 8.64e7, 6.048e8];
/// Ticks nearer to each other than this share of the axis overlap.
const TICK_ROOM: f64 = 0.08;

/// How values lie along the vertical axis of a chart. Places run from 0 (bottom) to 1 (top).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Even, from 0 to a value above 0.
    Linear {
        /// At the top.
        most: f64,
    },
    /// By orders of magnitude.
    Log {
        /// At the bottom, above 0.
        least: f64,
        /// At the top.
        most: f64,
    },
    /// Lengths of time in ms by orders of magnitude to both sides of 0, even within one `unit` of it.
    Symmetric {
        /// Where the orders of magnitude begin.
        unit: f64,
        /// At the top; minus this at the bottom.
        most: f64,
    },
}

impl Scale {
    /// From 0 to a round number at or above the greatest value.
    pub fn linear(greatest: f64) -> Scale {
        let step = step(greatest.max(1e-9), 5);
        Scale::Linear { most: (greatest.max(1e-9) / step).ceil() * step }
    }

    /// From the order of magnitude of the least value to that of the greatest.
    pub fn log(least: f64, greatest: f64) -> Scale {
        let least = 10_f64.powf(least.max(1e-9).log10().floor());
        let most = 10_f64.powf(greatest.max(1e-9).log10().ceil());
        Scale::Log { least, most: most.max(least * 10.0) }
    }

    /// To both sides of 0.
    pub fn symmetric(unit: f64, greatest: f64) -> Scale {
        Scale::Symmetric { unit, most: greatest.max(unit * 10.0) * 2.0 }
    }

    /// Where a value lies; beyond the axis it lies at its end.
    pub fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Scale::Linear { most } => value / most,
            Scale::Log { least, most } => (value.max(least) / least).log10() / (most / least).log10(),
            Scale::Symmetric { unit, most } => {
                let bent = |value: f64| value.signum() * (1.0 + value.abs() / unit).log10();
                0.5 + bent(value) / bent(most) / 2.0
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// The values that get a line and a number.
    pub fn ticks(&self) -> Vec<f64> {
        match *self {
            Scale::Linear { most } => evenly(0.0, most, 5),
            Scale::Log { least, most } => powers(least, most),
            Scale::Symmetric { unit, most } => {
                // From the outside to 0, as far apart as numbers are high.
                let mut side: Vec<f64> = Vec::new();
                let mut last = 1.0 + TICK_ROOM;
                for tick in TIMES.into_iter().rev().filter(|tick| (unit..=most).contains(tick)) {
                    let place = self.place(tick);
                    if last - place >= TICK_ROOM && place - 0.5 >= TICK_ROOM {
                        side.push(tick);
                        last = place;
                    }
                }
                side.reverse();
                let below = side.iter().rev().map(|tick| -tick);
                below.chain([0.0]).chain(side.iter().copied()).collect()
            }
        }
    }
}

/// Round values from `least` to `most`, about so many.
pub fn evenly(least: f64, most: f64, about: usize) -> Vec<f64> {
    let step = step(most - least, about);
    let first = (least / step).ceil() as i64;
    let last = (most / step + 1e-6).floor() as i64;
    (first..=last).map(|at| at as f64 * step).collect()
}

/// A round step (1, 2 or 5 times a power of ten) that cuts a length into about so many parts.
fn step(length: f64, about: usize) -> f64 {
    let raw = (length / about.max(1) as f64).max(1e-12);
    let power = 10_f64.powf(raw.log10().floor());
    let rounds = [1.0, 2.0, 5.0, 10.0];
    power * rounds.into_iter().find(|round| *round * power >= raw * 0.999).unwrap_or(10.0)
}

fn powers(least: f64, most: f64) -> Vec<f64> {
    let first = least.log10().round() as i32;
    let last = (most.log10() + 1e-6).floor() as i32;
    (first..=last).map(|power| 10_f64.powi(power)).collect()
}

/// A length of time in ms, as short as it can be said: `0.2 ms`, `1.5 s`, `2 min`, `7 d`.
pub fn duration(ms: f64) -> String {
    let size = ms.abs();
    let (value, unit) = match size {
        _ if size < 1_000.0 => (ms, "ms"),
        _ if size < 60_000.0 => (ms / 1e3, "s"),
        _ if size < 3_600_000.0 => (ms / 6e4, "min"),
        _ if size < 86_400_000.0 => (ms / 3.6e6, "h"),
        _ => (ms / 8.64e7, "d"),
    };
    format!("{} {unit}", number(value))
}

/// A number with as many digits as are worth reading.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || (value - value.round()).abs() < 1e-9 => 0,
        size if size >= 1.0 => 1,
        size if size >= 0.01 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    grouped(text)
}

/// Thousands apart.
fn grouped(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("\u{2212}", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(whole, part)| (whole, Some(part)));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(part) = fraction {
        out.push('.');
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_lie_on_the_axis() {
        assert_eq!(Scale::linear(87.0).ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(Scale::log(0.3, 900.0).ticks(), [0.1, 1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(evenly(-3.0, 184.0, 10), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0, 160.0, 180.0]);
        for scale in
            [Scale::linear(0.0), Scale::linear(3.2), Scale::log(5.0, 5.0), Scale::symmetric(10.0, 6e8)]
        {
            let places: Vec<f64> = scale.ticks().into_iter().map(|tick| scale.place(tick)).collect();
            assert!(places.len() >= 2, "{scale:?}");
            assert!(
                places.is_sorted() && places.iter().all(|place| (0.0..=1.0).contains(place)),
                "{scale:?}"
            );
        }
        assert_eq!(Scale::symmetric(10.0, 1e6).place(0.0), 0.5);
        assert_eq!(Scale::log(1.0, 100.0).place(0.0), 0.0);
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(number(9_111.0), "9,111");
        assert_eq!(number(-1_234_567.0), "\u{2212}1,234,567");
        assert_eq!(
            (number(0.004_019), number(0.25), number(3.04)),
            ("0.004".into(), "0.25".into(), "3".into())
        );
        assert_eq!((duration(0.25), duration(1_500.0)), ("0.25 ms".into(), "1.5 s".into()));
        assert_eq!((duration(-60_000.0), duration(6.048e8)), ("\u{2212}1 min".into(), "7 d".into()));
    }
}
