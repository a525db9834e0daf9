//! The verdict in words, and how to have the run again.

use orloj_jepsen_core::verdict::Validity;

use super::markup::Markup;
use super::scale::number;
use super::subject::{SECOND, Subject};

/// The first part of the page.
pub fn section(subject: &Subject<'_>) -> Markup {
    let (results, plan) = (&subject.files.results, &subject.files.plan);
    let validity = results.validity();
    let mut page = Markup::default();
    page.wrap("header", &[("class", class(validity))], |header| {
        header.leaf("p", &[("class", "kicker")], "Fault test of an Orloj cluster");
        header.leaf("h1", &[], word(validity));
        header.leaf("p", &[("class", "why")], &why(subject));
    });
    page.wrap("dl", &[("class", "facts")], |facts| {
        let mut fact = |name: &str, value: &str| {
            facts.wrap("div", &[], |pair| {
                pair.leaf("dt", &[], name).leaf("dd", &[], value);
            });
        };
        fact("Scenario", &results.scenario);
        fact("Seed", &results.seed.to_string());
        fact("Run", &subject.files.name);
        fact("Load", &load(subject));
        fact("Whole history", &whole(subject));
        let (clients, rate) = (plan.options.clients, plan.options.rate);
        fact("Clients", &format!("{clients}, together {rate} operations a second"));
        fact("Faults", &format!("{} planned, {} installed", plan.steps.len(), subject.faults.len()));
        fact("Leader changes", &subject.leaders.changes().to_string());
        fact("Tasks", &number(subject.tasks.by_id.len() as f64));
    });
    again(subject, &mut page);
    failures(subject, &mut page);
    page
}

/// The class of a verdict's colour.
pub fn class(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Invalid => "invalid",
        Validity::Unknown => "unknown",
    }
}

/// A verdict as a word.
pub fn word(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "Valid",
        Validity::Invalid => "Invalid",
        Validity::Unknown => "Unknown",
    }
}

fn why(subject: &Subject<'_>) -> String {
    let results = &subject.files.results;
    let judgements = &results.report.judgements;
    let of = |validity: Validity| -> Vec<&str> {
        judgements.iter().filter(|word| word.validity == validity).map(|word| word.id.as_str()).collect()
    };
    let (bad, open) = (of(Validity::Invalid), of(Validity::Unknown));
    let failed = results.harness_failures.len();
    let mut text = match results.validity() {
        Validity::Valid => format!(
            "Every one of the {} invariants held, and the run exercised what it had to exercise.",
            judgements.len()
        ),
        Validity::Invalid => {
            format!("{} of {} invariants did not hold: {}.", bad.len(), judgements.len(), bad.join(", "))
        }
        Validity::Unknown => "Nothing was found to be wrong, but the run is no proof either.".to_owned(),
    };
    if !open.is_empty() {
        text.push_str(&format!(" Of {} nothing can be said: {}.", open.len(), open.join(", ")));
    }
    if failed > 0 {
        text.push_str(&format!(" The harness itself failed at {failed} points: see below."));
    }
    text
}

fn load(subject: &Subject<'_>) -> String {
    let history = &subject.files.history;
    match (history.phase("load"), history.phase("quiesce")) {
        (Some(from), Some(until)) => {
            let took = (until - from) / SECOND;
            format!("{took} s ({} s with faults)", subject.files.plan.options.seconds)
        }
        _ => format!("{} s planned; the history does not tell its end", subject.files.plan.options.seconds),
    }
}

fn whole(subject: &Subject<'_>) -> String {
    let events = subject.files.history.events();
    let (first, last) = (events.first(), events.last());
    let ns = last.map_or(0, |event| event.mono_ns) - first.map_or(0, |event| event.mono_ns);
    format!("{} events in {} s", number(events.len() as f64), number((ns / SECOND) as f64))
}

fn again(subject: &Subject<'_>, page: &mut Markup) {
    let (results, options) = (&subject.files.results, &subject.files.plan.options);
    let run = format!(
        "orloj-jepsen run --scenario {} --seed {} --seconds {} --rate {}",
        quoted(&results.scenario),
        results.seed,
        options.seconds,
        options.rate
    );
    let dir = quoted(&format!("store/{}", subject.files.name));
    page.wrap("div", &[("class", "again")], |again| {
        again.leaf("p", &[], "The same choices again (a seed repeats choices, not timing):");
        again.leaf("pre", &[], &run);
        again.leaf("p", &[], "The recorded plan again; or the recorded history under the checkers of today:");
        again.leaf("pre", &[], &format!("orloj-jepsen replay {dir}\norloj-jepsen check {dir}"));
    });
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn failures(subject: &Subject<'_>, page: &mut Markup) {
    let failures = &subject.files.results.harness_failures;
    if failures.is_empty() {
        return;
    }
    page.wrap("div", &[("class", "failures")], |part| {
        let text = "What the harness itself failed at. With any of these a run is never valid:";
        part.leaf("p", &[], text);
        part.wrap("ul", &[], |list| {
            for failure in failures {
                list.leaf("li", &[], failure);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn commands_can_be_copied_into_a_shell() {
        assert_eq!(quoted("smoke"), "smoke");
        assert_eq!(quoted("my scenario's.toml"), r"'my scenario'\''s.toml'");
        assert_eq!(quoted(""), "''");
    }
}
