//! Figures of runs, and what several runs of a workload say together. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ceilings::Ceilings;
use crate::latency::{Distribution, Latency, Quantiles};

/// One figure of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
}

/// What a process used during a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessUse {
    /// Which process.
    pub name: String,
    /// CPU time, in s.
    pub cpu_s: f64,
    /// The most memory that was resident, in MiB.
    pub peak_mib: f64,
}

/// One run of one workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The workload, with its variant.
    pub workload: String,
    /// Which run of it, from 1.
    pub run: u32,
    /// What its random choices came from.
    pub seed: u64,
    /// When it began, by RFC 3339.
    pub started_at: String,
    /// How long it took with its cluster's start and end, in s.
    pub took_s: f64,
    /// How fast the machine itself was just before.
    pub ceilings: Option<Ceilings>,
    /// The figures, in the order in which they are shown.
    pub figures: Vec<Figure>,
    /// The whole distributions, by name.
    pub latencies: BTreeMap<String, Distribution>,
    /// What each process used.
    pub processes: Vec<ProcessUse>,
    /// Tasks a second in each slice of time.
    pub slices: Vec<f64>,
    /// Why submissions were not acknowledged, with how often.
    pub errors: BTreeMap<String, u64>,
    /// What a reader of the figures has to know.
    pub notes: Vec<String>,
    /// What must not have happened and did: the product broke its word, or the figures are none.
    pub faults: Vec<String>,
}

impl Run {
    /// Adds a figure.
    pub fn add(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        self.figures.push(Figure { name: name.into(), unit, value });
    }

    /// Adds a distribution, with these percentiles of it as figures.
    pub fn add_latency(&mut self, name: &str, latency: &Latency, shown: &[Shown]) {
        let Some(distribution) = latency.distribution() else { return };
        for shown in shown {
            self.add(format!("{name} {}", shown.word()), "ms", shown.of(&distribution.quantiles));
        }
        self.latencies.insert(name.to_owned(), distribution);
    }

    /// Notes a fault when there are any of something of which there must be none.
    pub fn must_be_none(&mut self, count: u64, what: &str) {
        if count > 0 {
            self.faults.push(format!("{count} {what}"));
        }
    }
}

/// A percentile that is shown as a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Half.
    P50,
    /// 95 %.
    P95,
    /// 99 %.
    P99,
    /// The longest.
    Max,
}

impl Shown {
    /// All of them.
    pub const ALL: &[Shown] = &[Shown::P50, Shown::P95, Shown::P99, Shown::Max];

    fn word(self) -> &'static str {
        match self {
            Shown::P50 => "p50",
            Shown::P95 => "p95",
            Shown::P99 => "p99",
            Shown::Max => "max",
        }
    }

    fn of(self, quantiles: &Quantiles) -> f64 {
        match self {
            Shown::P50 => quantiles.p50,
            Shown::P95 => quantiles.p95,
            Shown::P99 => quantiles.p99,
            Shown::Max => quantiles.max,
        }
    }
}

/// What the runs of one workload say of one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The workload, with its variant.
    pub workload: String,
    /// The figure.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// The middle one; of an even number of runs the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// In how many runs it was measured.
    pub runs: usize,
}

impl Row {
    /// The cells of a table: workload, figure, median with unit, spread, runs.
    pub fn cells(&self) -> [String; 5] {
        let spread = match self.runs {
            1 => String::new(),
            _ => format!("{} – {}", shown(self.min), shown(self.max)),
        };
        let value = format!("{} {}", shown(self.median), self.unit);
        let cells = [&self.workload, &self.name, value.trim_end(), &spread].map(str::to_owned);
        let [workload, name, value, spread] = cells;
        [workload, name, value, spread, self.runs.to_string()]
    }
}

/// One row for each figure of each workload, in the order in which they first came.
pub fn summarise(runs: &[Run]) -> Vec<Row> {
    let mut order: Vec<(&str, &str, &'static str)> = Vec::new();
    let mut values: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for run in runs {
        for figure in &run.figures {
            let key = (run.workload.as_str(), figure.name.as_str());
            let seen = values.entry(key).or_insert_with(|| {
                order.push((key.0, key.1, figure.unit));
                Vec::new()
            });
            seen.push(figure.value);
        }
    }
    let row = |(workload, name, unit)| {
        let mut values = values.remove(&(workload, name)).unwrap_or_default();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Row {
            workload: str::to_owned(workload),
            name: str::to_owned(name),
            unit,
            median,
            min: values[0],
            max: values[values.len() - 1],
            runs: values.len(),
        }
    };
    order.into_iter().map(row).collect()
}

/// A number with three digits that say something, in groups of thousands.
pub fn shown(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if size >= 100.0 || value == value.trunc() => return grouped(value.round()),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn grouped(whole: f64) -> String {
    let digits = format!("{:.0}", whole.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if whole < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(workload: &str, value: f64) -> Run {
        let mut run = Run { workload: workload.to_owned(), ..Run::default() };
        run.add("rate", "/s", value);
        run
    }

    #[test]
    fn runs_give_median_and_spread_in_order() {
        let mut first = run("steady", 5.0);
        first.add("only once", "", 1.0);
        let rows = summarise(&[first, run("burst", 9.0), run("steady", 1.0), run("steady", 3.0)]);
        let named: Vec<(&str, &str)> =
            rows.iter().map(|row| (row.workload.as_str(), row.name.as_str())).collect();
        assert_eq!(named, [("steady", "rate"), ("steady", "only once"), ("burst", "rate")]);
        assert_eq!((rows[0].median, rows[0].min, rows[0].max, rows[0].runs), (3.0, 1.0, 5.0, 3));
        assert_eq!(rows[0].cells(), ["steady", "rate", "3 /s", "1 – 5", "3"].map(str::to_owned));
        assert_eq!(rows[2].cells()[3], "");
        assert!((summarise(&[run("a", 1.0), run("a", 2.0)])[0].median - 1.5).abs() < 1e-9);
        assert!(summarise(&[]).is_empty());
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (1_234_567.4, "1,234,567"),
            (-12_345.0, "-12,345"),
            (999.6, "1,000"),
            (123.4, "123"),
            (12.34, "12.3"),
            (1.5, "1.5"),
            (0.1234, "0.123"),
            (10.0, "10"),
        ];
        for (value, want) in cases {
            assert_eq!(shown(value), want);
        }
    }

    #[test]
    fn only_what_happened_is_a_fault() {
        let mut run = Run::default();
        run.must_be_none(0, "were lost");
        run.must_be_none(2, "were lost");
        assert_eq!(run.faults, ["2 were lost"]);
    }

    #[test]
    fn a_distribution_shows_the_percentiles_asked_for() {
        let mut latency = Latency::default();
        latency.record(2_000);
        let mut run = Run::default();
        run.add_latency("submit", &latency, &[Shown::P50, Shown::Max]);
        run.add_latency("nothing", &Latency::default(), Shown::ALL);
        let names: Vec<&str> = run.figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["submit p50", "submit max"]);
        assert!(run.latencies.contains_key("submit") && run.latencies.len() == 1);
    }
}
