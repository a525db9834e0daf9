//! The faults of the run on one time axis: what the numbers and shades of all other charts mean.

use std::collections::BTreeMap;

use super::chart::{Chart, at, legend, package_class, tip};
use super::markup::Markup;
use super::subject::Subject;

/// Height of a row.
const ROW: f64 = 22.0;
/// Narrower bars have their number beside them.
const NUMBER_ROOM: f64 = 20.0;

/// One row for each kind of fault.
pub fn figure(subject: &Subject<'_>) -> Markup {
    let mut rows: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, fault) in subject.faults.iter().enumerate() {
        rows.entry(fault.class()).or_default().push(place);
    }
    let mut chart = Chart::whole(subject, ROW * rows.len().max(1) as f64);
    let names: Vec<String> = rows.keys().cloned().collect();
    let places = chart.lanes(&names);
    for (faults, (y, height)) in rows.values().zip(places) {
        for fault in faults.iter().map(|place| &subject.faults[*place]) {
            if !chart.shows(fault.from_ns, fault.until_ns) {
                continue;
            }
            let (x, end) = (chart.x(fault.from_ns), chart.x(fault.until_ns));
            let side = if fault.fault.on_leader { "on-leader" } else { "off-leader" };
            let class = format!("fault {} {side}", package_class(fault.fault));
            chart.rect(&class, x, y + 4.0, (end - x).max(2.0), height - 8.0, &tip(fault));
            let inside = end - x >= NUMBER_ROOM && fault.fault.on_leader;
            let (anchor, x) =
                if inside { ("inside mid", (x + end) / 2.0) } else { ("small", end.max(x + 2.0) + 3.0) };
            chart.text(anchor, x, y + height / 2.0 + 4.0, &fault.fault.step.to_string());
        }
    }
    let sides = [
        ("fault pk-other on-leader", "filled: the leader of the moment was hit"),
        ("fault pk-other off-leader", "outlined: it was not"),
    ];
    let mut keys = packages(subject);
    keys.add(&legend(&sides));
    chart.figure(
        "Faults",
        "What the nemesis did and for how long, one row for each kind. The number is the step of the plan. \
         The same numbers and shades stand behind every chart below.",
        &keys,
        "No fault was installed in this run, so no chart has bands.",
    )
}

/// The shades of the packages that occurred.
fn packages(subject: &Subject<'_>) -> Markup {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for fault in &subject.faults {
        seen.insert(&fault.fault.package, package_class(fault.fault));
    }
    let keys: Vec<(String, &str)> =
        seen.iter().map(|(package, class)| (format!("fault {class} on-leader"), *package)).collect();
    let keys: Vec<(&str, &str)> = keys.iter().map(|(class, package)| (class.as_str(), *package)).collect();
    match keys.is_empty() {
        true => Markup::default(),
        false => legend(&keys),
    }
}

/// A path of steps that closes on a base line: (left, right, top) in order, `base` below.
pub fn steps(blocks: &[(f64, f64, f64)], base: f64) -> String {
    let mut d = String::new();
    let mut last: Option<f64> = None;
    for (left, right, top) in blocks {
        match last {
            Some(end) if (end - left).abs() < 0.05 => d.push_str(&format!("V{}H{}", at(*top), at(*right))),
            Some(_) => {
                d.push_str(&format!("V{}ZM{} {}V{}H{}", at(base), at(*left), at(base), at(*top), at(*right)))
            }
            None => d.push_str(&format!("M{} {}V{}H{}", at(*left), at(base), at(*top), at(*right))),
        }
        last = Some(*right);
    }
    if last.is_some() {
        d.push_str(&format!("V{}Z", at(base)));
    }
    d
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn steps_close_on_the_base() {
        assert_eq!(steps(&[], 9.0), "");
        assert_eq!(steps(&[(0.0, 1.0, 5.0), (1.0, 2.0, 6.5)], 9.0), "M0 9V5H1V6.5H2V9Z");
        assert_eq!(steps(&[(0.0, 1.0, 5.0), (4.0, 5.0, 6.0)], 9.0), "M0 9V5H1V9ZM4 9V6H5V9Z");
    }
}
