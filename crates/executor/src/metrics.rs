//! The executor's metrics in Prometheus' text form.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use orloj_wire::protocol::HandlerStats;

use crate::core::Core;
use crate::load;
use crate::sync::lock;

/// Renders every metric.
pub(crate) fn render(core: &Core) -> String {
    let mut out = String::new();
    let (running, queued, round, draining) = {
        let book = lock(&core.book);
        (book.running(), book.queued(), book.round(), book.draining())
    };
    let (waiting, outcomes, forgotten) = {
        let ledger = lock(core.journal.ledger());
        (ledger.waiting(), ledger.outcomes(), ledger.forgotten_early())
    };
    let g = "gauge";
    one(&mut out, "orloj_executor_slots", g, "Attempts that run at once.", core.settings.slots);
    one(&mut out, "orloj_executor_running", g, "Attempts in slots.", running);
    one(&mut out, "orloj_executor_queued", g, "Attempts in the queue.", queued);
    one(&mut out, "orloj_executor_draining", g, "1 while it takes nothing new.", u8::from(draining));
    one(&mut out, "orloj_executor_round", g, "The highest round seen.", round);
    one(&mut out, "orloj_executor_incarnation", g, "The life of the process.", core.settings.incarnation);
    one(&mut out, "orloj_executor_reports_pending", g, "Reports not yet acknowledged.", waiting);
    one(&mut out, "orloj_executor_outcomes_remembered", g, "Successes that answer later attempts.", outcomes);
    let help = "Successes forgotten before their window was over, for lack of room.";
    one(&mut out, "orloj_executor_outcomes_forgotten_early_total", "counter", help, forgotten);
    one(
        &mut out,
        "orloj_executor_cpu_percent",
        g,
        "Load of the last minute over all cores.",
        load::cpu_pct(),
    );
    let stats = lock(&core.stats).tell();
    each(&mut out, &stats, "orloj_executor_attempts_started_total", "counter", "Attempts started.", |s| {
        s.started
    });
    each(&mut out, &stats, "orloj_executor_attempts_failed_total", "counter", "Failed or timed out.", |s| {
        s.failed
    });
    let help = "Mean duration of the last 256 attempts.";
    each(&mut out, &stats, "orloj_executor_duration_mean_ms", g, help, |s| s.mean_ms);
    let help = "95th percentile of the duration of the last 256 attempts.";
    each(&mut out, &stats, "orloj_executor_duration_p95_ms", g, help, |s| s.p95_ms);
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn one(out: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    head(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}

fn each<V: Display>(
    out: &mut String,
    stats: &BTreeMap<String, HandlerStats>,
    name: &str,
    kind: &str,
    help: &str,
    value: impl Fn(&HandlerStats) -> V,
) {
    head(out, name, kind, help);
    for (handler, stats) in stats {
        // Handler names hold nothing that a label value would have to escape.
        let _ = writeln!(out, "{name}{{handler=\"{handler}\"}} {}", value(stats));
    }
}
