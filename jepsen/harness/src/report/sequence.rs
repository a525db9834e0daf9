//! A small sequence diagram: who told whom what, from top to bottom.

use std::collections::BTreeSet;

use orloj_jepsen_core::event::{Event, Kind, What};

use super::chart::{WIDTH, at};
use super::markup::Markup;
use super::scale::number;
use super::subject::Subject;
use super::tell;

/// Height of a row.
const ROW: f64 = 23.0;
/// Room for the names of the lanes.
const HEAD: f64 = 34.0;
/// Room for the times.
const TIMES: f64 = 84.0;
/// Rows that are drawn of one diagram.
const ROWS: usize = 60;
/// Longer labels are cut.
const LABEL: usize = 52;

/// One row of the diagram.
struct Row {
    ns: u64,
    cited: bool,
    class: &'static str,
    label: String,
    shape: Shape,
}

enum Shape {
    /// From one lane to another; `sure` when the history names both.
    Arrow { from: String, to: String, sure: bool },
    /// At one lane.
    Note(String),
    /// Across all.
    Across,
}

/// The diagram of these events, which are in order. `cited` are those that show the anomaly.
pub fn diagram(subject: &Subject<'_>, events: &[&Event], cited: &BTreeSet<u64>) -> Markup {
    let rows: Vec<Row> = events.iter().filter_map(|event| row(subject, event, cited)).collect();
    let (rows, left_out) = cut(rows);
    let lanes = lanes(&rows);
    let mut page = Markup::default();
    if rows.is_empty() {
        page.leaf("p", &[("class", "nothing")], "Nothing in the history can be drawn for this.");
        return page;
    }
    let height = HEAD + ROW * rows.len() as f64 + 12.0;
    let view = format!("0 0 {} {}", at(WIDTH), at(height));
    let attributes =
        [("viewBox", &*view), ("class", "sequence"), ("role", "img"), ("aria-label", "sequence of events")];
    page.wrap("svg", &attributes, |svg| {
        for lane in &lanes {
            let x = at(place(&lanes, lane));
            svg.leaf("text", &[("class", "lane mid"), ("x", &x), ("y", "14")], lane);
            svg.empty(
                "line",
                &[("class", "life"), ("x1", &x), ("y1", "20"), ("x2", &x), ("y2", &at(height - 4.0))],
            );
        }
        for (number, row) in rows.iter().enumerate() {
            draw(svg, subject, &lanes, row, HEAD + ROW * number as f64 + 10.0);
        }
    });
    if left_out > 0 {
        let text = format!("{left_out} rows in the middle are left out.");
        page.leaf("p", &[("class", "caption")], &text);
    }
    page
}

/// Takes rows out of the middle when there are too many; what is cited stays.
fn cut(rows: Vec<Row>) -> (Vec<Row>, usize) {
    let all = rows.len();
    if all <= ROWS {
        return (rows, 0);
    }
    let keep = |(place, row): &(usize, Row)| *place < ROWS / 2 || *place >= all - ROWS / 2 || row.cited;
    let kept: Vec<Row> = rows.into_iter().enumerate().filter(keep).map(|(_, row)| row).collect();
    let left_out = all - kept.len();
    (kept, left_out)
}

fn row(subject: &Subject<'_>, event: &Event, cited: &BTreeSet<u64>) -> Option<Row> {
    let node = || event.node.clone();
    let leader = || leader_at(subject, event.mono_ns);
    let arrow = |from: Option<String>, to: Option<String>, sure| match (from, to) {
        (Some(from), Some(to)) => Shape::Arrow { from, to, sure },
        (Some(one), None) | (None, Some(one)) => Shape::Note(one),
        (None, None) => Shape::Across,
    };
    let client = || Some(event.src.clone());
    let (shape, class) = match &event.what {
        What::Submit(_) | What::Get(_) | What::Cancel(_) | What::List(_) => match event.kind {
            Kind::Invoke => (arrow(client(), node(), true), "plain"),
            Kind::Ok => (arrow(node(), client(), true), "ok"),
            Kind::Fail => (arrow(node(), client(), true), "fail"),
            _ => (Shape::Note(event.src.clone()), "info"),
        },
        What::Recv(recv) => {
            let sender = recv.sender.clone().or_else(|| by_round(subject, recv.round));
            let class = if recv.verdict == "refused" { "fail" } else { "plain" };
            (arrow(sender, Some(recv.executor.clone()), true), class)
        }
        What::Start(start) => (Shape::Note(start.executor.clone()), "work"),
        What::Finish(finish) => (Shape::Note(finish.executor.clone()), "work"),
        What::CancelRecv(stop) => (arrow(leader(), Some(stop.executor.clone()), false), "plain"),
        What::ReportSent(report) => (arrow(Some(report.executor.clone()), leader(), false), "plain"),
        What::ReportAcked(acked) => (arrow(leader(), Some(acked.executor.clone()), false), "ok"),
        What::Effect(_) => (Shape::Note(node().unwrap_or_else(|| "sink".into())), "work"),
        What::Callback(_) => (arrow(leader(), node(), false), "work"),
        What::JobPut(_) | What::JobStopped(_) | What::KeyLimits(_) | What::Knock(_) => {
            (Shape::Note(event.src.clone()), "plain")
        }
        What::Probe(_) | What::Process(_) | What::FinalTask(_) | What::FinalTable(_) | What::FinalJob(_) => {
            (Shape::Note(node()?), "state")
        }
        What::ExecutorUp(up) => (Shape::Note(up.executor.clone()), "state"),
        What::ExecutorDown(down) => (Shape::Note(down.executor.clone()), "info"),
        What::RoomSaid(said) => (arrow(Some(said.executor.clone()), leader(), false), "plain"),
        What::RoundHeard(heard) => (arrow(heard.leader.clone(), Some(heard.executor.clone()), true), "state"),
        What::Fault(_) | What::Links(_) => (Shape::Across, "fault-row"),
        What::Phase(_) => (Shape::Across, "phase-row"),
    };
    let ending = tell::kind(event);
    let label = match &event.what {
        What::Probe(_) | What::Process(_) | What::Phase(_) | What::Fault(_) => tell::brief(event),
        _ => format!("{} {ending} {}", tell::name(event), tell::brief(event)),
    };
    let label = label.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Row { ns: event.mono_ns, cited: cited.contains(&event.i), class, label, shape })
}

/// Who served last before an instant: to whom an executor talks, as far as anybody can tell.
fn leader_at(subject: &Subject<'_>, ns: u64) -> Option<String> {
    let begun = subject.leaders.reigns().iter().take_while(|reign| reign.first_ns <= ns);
    begun.last().map(|reign| reign.node.to_owned())
}

fn by_round(subject: &Subject<'_>, round: u64) -> Option<String> {
    let found = subject.leaders.reigns().iter().find(|reign| reign.round == round);
    found.map(|reign| reign.node.to_owned())
}

/// Clients, replicas, executors, sink: the order in which work goes through them.
fn lanes(rows: &[Row]) -> Vec<String> {
    let mut names: BTreeSet<(u8, String)> = BTreeSet::new();
    let mut take = |name: &String| {
        let rank = match name.chars().next() {
            Some('c') => 0,
            Some('n') => 1,
            Some('e') => 2,
            _ => 3,
        };
        names.insert((rank, name.clone()));
    };
    for row in rows {
        match &row.shape {
            Shape::Arrow { from, to, .. } => [from, to].into_iter().for_each(&mut take),
            Shape::Note(lane) => take(lane),
            Shape::Across => {}
        }
    }
    names.into_iter().map(|(_, name)| name).collect()
}

fn place(lanes: &[String], lane: &str) -> f64 {
    let number = lanes.iter().position(|name| name == lane).unwrap_or(0) as f64;
    // Room at both sides for labels.
    TIMES + 70.0 + number * (WIDTH - TIMES - 210.0) / (lanes.len().max(2) - 1) as f64
}

fn draw(svg: &mut Markup, subject: &Subject<'_>, lanes: &[String], row: &Row, y: f64) {
    if row.cited {
        let place = [("x", "0"), ("width", &*at(WIDTH)), ("y", &*at(y - 14.0)), ("height", &*at(ROW))];
        let attributes: Vec<(&str, &str)> = [("class", "cited")].into_iter().chain(place).collect();
        svg.empty("rect", &attributes);
    }
    let time = format!("{} s", thousandths(subject.seconds(row.ns)));
    svg.leaf("text", &[("class", "time end"), ("x", &at(TIMES - 8.0)), ("y", &at(y + 3.0))], &time);
    let most = if matches!(row.shape, Shape::Across) { 3 * LABEL } else { LABEL };
    let label = shortened(&row.label, most);
    let write = |svg: &mut Markup, anchor: &str, x: f64, up: f64| {
        let class = format!("says {anchor} {}", row.class);
        svg.wrap("text", &[("class", &class), ("x", &at(x)), ("y", &at(y - up))], |text| {
            text.text(&label);
            if label != row.label {
                text.leaf("title", &[], &row.label);
            }
        });
    };
    match &row.shape {
        Shape::Across => {
            let (class, y) = (format!("across {}", row.class), at(y + 3.0));
            let end = at(WIDTH);
            svg.empty("line", &[("class", &class), ("x1", &at(TIMES)), ("y1", &y), ("x2", &end), ("y2", &y)]);
            write(svg, "start", TIMES + 6.0, 1.0);
        }
        Shape::Note(lane) => {
            let x = place(lanes, lane);
            let class = format!("dot {}", row.class);
            svg.empty("circle", &[("class", &class), ("cx", &at(x)), ("cy", &at(y)), ("r", "4")]);
            let left = x < WIDTH * 0.62;
            let (anchor, x) = if left { ("start", x + 9.0) } else { ("end", x - 9.0) };
            write(svg, anchor, x, -4.0);
        }
        Shape::Arrow { from, to, sure } => {
            let (from, to) = (place(lanes, from), place(lanes, to));
            let head = if to > from { -6.0 } else { 6.0 };
            let d = format!("M{} {}H{}m{head} -4l{} 4l{head} 4", at(from), at(y + 3.0), at(to), -head);
            let class = format!("arrow {} {}", row.class, if *sure { "sure" } else { "unsure" });
            svg.empty("path", &[("class", &class), ("d", &d)]);
            let middle = ((from + to) / 2.0).clamp(TIMES + 170.0, WIDTH - 180.0);
            write(svg, "mid", middle, 0.0);
        }
    }
}

fn shortened(label: &str, most: usize) -> String {
    if label.chars().count() <= most {
        return label.to_owned();
    }
    let mut short: String = label.chars().take(most - 1).collect();
    short.push('\u{2026}');
    short
}

/// Seconds to the millisecond.
pub fn thousandths(seconds: f64) -> String {
    let text = format!("{:.3}", seconds.abs());
    let (whole, part) = text.split_once('.').unwrap_or((&text, "000"));
    let sign = if seconds < 0.0 { "\u{2212}" } else { "" };
    format!("{sign}{}.{part}", number(whole.parse().unwrap_or(0.0)))
}
