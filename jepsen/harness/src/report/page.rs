//! The page as a whole: its parts in the order in which one asks.

use super::markup::Markup;
use super::subject::{Files, Subject};
use super::{
    anomalies, coverage, figures, headline, machine, plot_faults, plot_gauges, plot_lag, plot_lanes,
    plot_latency, plot_rates, plot_tasks, verdicts,
};

/// How the page looks.
const STYLE: &str = include_str!("style.css");

/// The document.
pub fn page(files: &Files) -> String {
    let subject = Subject::of(files);
    let results = &files.results;
    let verdict = headline::word(results.validity());
    let title = format!("{verdict}: {} seed {} ({})", results.scenario, results.seed, files.name);
    let mut page = Markup::default();
    page.add(&headline::section(&subject));
    contents(&mut page);
    part(&mut page, "invariants", verdicts::table(&subject));
    part(&mut page, "coverage", coverage::section(&subject));
    part(&mut page, "machine", machine::section(&subject));
    part(&mut page, "time", plots(&subject));
    part(&mut page, "figures", figures::section(&subject));
    part(&mut page, "anomalies", anomalies::sections(&subject));
    page.document(&title, STYLE)
}

/// The parts: anchor and heading.
const PARTS: [(&str, &str); 6] = [
    ("invariants", "Invariants"),
    ("coverage", "Coverage: what was really exercised"),
    ("machine", "Machine: what could be exercised"),
    ("time", "The run over time"),
    ("figures", "Figures"),
    ("anomalies", "Anomalies"),
];

fn contents(page: &mut Markup) {
    page.wrap("nav", &[], |nav| {
        for (anchor, heading) in PARTS {
            let short = heading.split(':').next().unwrap_or(heading);
            nav.leaf("a", &[("href", &format!("#{anchor}"))], short).text(" ");
        }
    });
}

fn part(page: &mut Markup, anchor: &str, inner: Markup) {
    let heading = PARTS.iter().find(|(known, _)| *known == anchor).map_or(anchor, |(_, heading)| heading);
    page.wrap("section", &[("id", anchor), ("class", "part")], |section| {
        section.leaf("h2", &[], heading);
        section.add(&inner);
    });
}

fn plots(subject: &Subject<'_>) -> Markup {
    let mut page = Markup::default();
    page.add(&plot_faults::figure(subject));
    for plot in [
        plot_rates::rates,
        plot_rates::gaps,
        plot_lanes::figure,
        plot_latency::points,
        plot_latency::quantiles,
        plot_rates::unknown,
        plot_tasks::figure,
        plot_lag::figure,
        plot_gauges::clocks,
        plot_gauges::memory,
    ] {
        page.add(&plot(subject));
    }
    page
}
