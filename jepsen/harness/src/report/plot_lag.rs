//! How late attempts began.

use std::collections::BTreeMap;

use orloj_jepsen_core::event::What;

use super::chart::Chart;
use super::markup::Markup;
use super::plot_rates::bin;
use super::scale::number;
use super::subject::{SECOND, Subject};

/// Upper bounds of the rows, in ms, and their names; the last row has no bound.
const ROWS: [(f64, &str); 11] = [
    (0.0, "early"),
    (3.0, "0 \u{2013} 3 ms"),
    (10.0, "3 \u{2013} 10 ms"),
    (30.0, "10 \u{2013} 30 ms"),
    (100.0, "30 \u{2013} 100 ms"),
    (300.0, "100 \u{2013} 300 ms"),
    (1_000.0, "0.3 \u{2013} 1 s"),
    (3_000.0, "1 \u{2013} 3 s"),
    (10_000.0, "3 \u{2013} 10 s"),
    (30_000.0, "10 \u{2013} 30 s"),
    (f64::MAX, "over 30 s"),
];
/// Height of a row.
const ROW: f64 = 17.0;
/// Columns of the map, in ns, unless the run is long.
const BIN: u64 = 2 * SECOND;

/// The row of a lag.
fn row(lag_ms: f64) -> usize {
    ROWS.iter().position(|(bound, _)| lag_ms < *bound).unwrap_or(ROWS.len() - 1)
}

/// First attempts that started: (start, lag in ms).
fn lags(subject: &Subject<'_>) -> Vec<(u64, f64)> {
    let mut lags = Vec::new();
    for event in subject.files.history.events() {
        let What::Start(start) = &event.what else { continue };
        if start.grant.attempt != 1 {
            continue;
        }
        if let Some(due) = subject.asked_due_ns(&start.grant.task) {
            lags.push((event.mono_ns, event.mono_ns as f64 / 1e6 - due as f64 / 1e6));
        }
    }
    lags
}

/// The map: time from left to right, lag from bottom to top, darker where there are more.
pub fn figure(subject: &Subject<'_>) -> Markup {
    let bin = bin(subject, BIN);
    let mut cells: BTreeMap<(u64, usize), u64> = BTreeMap::new();
    for (start, lag) in lags(subject).into_iter().filter(|(start, _)| *start >= subject.zero_ns) {
        *cells.entry(((start - subject.zero_ns) / bin, row(lag))).or_default() += 1;
    }
    let mut chart = Chart::whole(subject, ROW * ROWS.len() as f64);
    let names: Vec<String> = ROWS.iter().rev().map(|(_, name)| (*name).to_owned()).collect();
    let lanes = chart.lanes(&names);
    let most = cells.values().copied().max().unwrap_or(1) as f64;
    for ((column, row), count) in &cells {
        let from = subject.zero_ns + column * bin;
        let (x, end) = (chart.x(from), chart.x(from + bin));
        let (y, height) = lanes[ROWS.len() - 1 - row];
        let shade = heat(*count as f64, most);
        let tip = format!("{count} started {} late about {} s", ROWS[*row].1, number(subject.seconds(from)));
        chart.rect(&format!("heat h{shade}"), x, y + 0.5, (end - x - 0.5).max(0.6), height - 1.0, &tip);
    }
    let caption = format!(
        "First attempts: when the handler started, less when it was due (the delay or the instant that the \
         caller asked for, after the acknowledgement; at once otherwise), by the monotonic clock. One \
         column is {} s. Early is not wrong by itself: a task may reach its executor before its caller \
         hears of it, and a clock that was put forward shortens delays.",
        number(bin as f64 / SECOND as f64)
    );
    chart.figure("Lag of starts", &caption, &keys(most), "No handler started in this history.")
}

/// A shade from 1 to 6, by orders of magnitude.
fn heat(count: f64, most: f64) -> u32 {
    if most <= 1.0 {
        return 4;
    }
    // Between 0 and 5.
    1 + (count.ln() / most.ln() * 5.0).round() as u32
}

fn keys(most: f64) -> Markup {
    let mut shades: BTreeMap<u32, f64> = BTreeMap::new();
    for step in 0..=5 {
        let count = most.powf(f64::from(step) / 5.0).round().max(1.0);
        shades.entry(heat(count, most)).or_insert(count);
    }
    let entries: Vec<(String, String)> =
        shades.iter().map(|(shade, count)| (format!("heat h{shade}"), number(*count))).collect();
    let mut keys: Vec<(&str, &str)> = vec![];
    keys.extend(entries.iter().map(|(class, count)| (class.as_str(), count.as_str())));
    let mut line = super::chart::legend(&keys);
    line.leaf("p", &[("class", "unit")], "starts in one cell");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_shades() {
        assert_eq!((row(-1.0), row(0.0), row(2.9), row(3.0)), (0, 1, 1, 2));
        assert_eq!(row(99_000.0), ROWS.len() - 1);
        assert_eq!((heat(1.0, 100.0), heat(10.0, 100.0), heat(100.0, 100.0)), (1, 4, 6));
        assert_eq!(heat(1.0, 1.0), 4);
    }
}
