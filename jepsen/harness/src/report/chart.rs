//! The frame that all charts over time share: axes, bands of the nemesis, phases of the run.

use orloj_jepsen_core::event::Fault;
use orloj_jepsen_core::faults::Installed;

use super::markup::Markup;
use super::scale::{Scale, evenly, number};
use super::subject::Subject;

/// Width of every chart, in its own units: pixels when the page is wide enough.
pub const WIDTH: f64 = 1_160.0;
/// Room for the names of rows and the numbers of the vertical axis.
pub const LEFT: f64 = 150.0;
/// Room at the right end.
const RIGHT: f64 = 14.0;
/// Room for the numbers of the nemesis's steps.
const TOP: f64 = 30.0;
/// Room for the time axis.
const BOTTOM: f64 = 38.0;
/// Room that the name of a phase takes.
const PHASE_ROOM: f64 = 44.0;
/// Labels nearer than this overlap.
const LABEL_ROOM: f64 = 17.0;

/// A chart under construction: the time of the run from left to right.
pub struct Chart {
    /// What is drawn.
    pub svg: Markup,
    from_ns: u64,
    until_ns: u64,
    height: f64,
    /// How much is drawn beside the frame.
    pub drawn: usize,
}

/// A coordinate with the digits that can be seen.
pub fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// The colour class of a package of faults.
pub fn package_class(fault: &Fault) -> &'static str {
    match fault.package.as_str() {
        "partition" => "pk-partition",
        "link" => "pk-link",
        "process" => "pk-process",
        "power" => "pk-power",
        "disk" => "pk-disk",
        "clock" => "pk-clock",
        "resource" => "pk-resource",
        "membership" => "pk-membership",
        "executor" => "pk-executor",
        "sink" => "pk-sink",
        _ => "pk-other",
    }
}

impl Chart {
    /// A chart of the whole run, `height` high without its axes, with the bands of the nemesis behind it.
    pub fn whole(subject: &Subject<'_>, height: f64) -> Chart {
        Chart::window(subject, height, subject.zero_ns, subject.end_ns)
    }

    /// The same of a part of the run.
    pub fn window(subject: &Subject<'_>, height: f64, from_ns: u64, until_ns: u64) -> Chart {
        let mut chart =
            Chart { svg: Markup::default(), from_ns, until_ns: until_ns.max(from_ns + 1), height, drawn: 0 };
        chart.bands(&subject.faults);
        chart.time_axis(subject);
        chart.drawn = 0;
        chart
    }

    /// Where the plot begins and ends, in units: left, top, right, bottom.
    pub fn edges(&self) -> (f64, f64, f64, f64) {
        (LEFT, TOP, WIDTH - RIGHT, TOP + self.height)
    }

    /// Where an instant lies; beyond the axis it lies at its end.
    pub fn x(&self, mono_ns: u64) -> f64 {
        let clamped = mono_ns.clamp(self.from_ns, self.until_ns);
        let share = (clamped - self.from_ns) as f64 / (self.until_ns - self.from_ns) as f64;
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    /// Whether any of this time is on the axis.
    pub fn shows(&self, from_ns: u64, until_ns: u64) -> bool {
        from_ns <= self.until_ns && until_ns >= self.from_ns
    }

    /// Where a value lies.
    pub fn y(&self, scale: &Scale, value: f64) -> f64 {
        TOP + self.height * (1.0 - scale.place(value))
    }

    /// A rectangle, with what the pointer shows over it.
    pub fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, tip: &str) {
        self.drawn += 1;
        let (x, y, width, height) = (at(x), at(y), at(width.max(0.6)), at(height.max(0.5)));
        let place = [("class", class), ("x", &*x), ("y", &*y), ("width", &*width), ("height", &*height)];
        match tip {
            "" => self.svg.empty("rect", &place),
            tip => self.svg.wrap("rect", &place, |rect| {
                rect.leaf("title", &[], tip);
            }),
        };
    }

    /// A text; `class` says how it is anchored.
    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        self.svg.leaf("text", &[("class", class), ("x", &at(x)), ("y", &at(y))], text);
    }

    /// A line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1, x2, y2) = (at(from.0), at(from.1), at(to.0), at(to.1));
        self.svg.empty("line", &[("class", class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)]);
    }

    /// A path.
    pub fn path(&mut self, class: &str, d: &str) {
        if !d.is_empty() {
            self.drawn += 1;
            self.svg.empty("path", &[("class", class), ("d", d)]);
        }
    }

    /// The lines and numbers of the vertical axis, and what it measures.
    pub fn value_axis(&mut self, scale: &Scale, measures: &str, tell: impl Fn(f64) -> String) {
        let (left, top, right, bottom) = self.edges();
        for tick in scale.ticks() {
            let y = self.y(scale, tick);
            self.line("grid", (left, y), (right, y));
            self.text("tick end", left - 6.0, y + 4.0, &tell(tick));
        }
        let (x, y) = (at(16.0), at((top + bottom) / 2.0));
        let turn = format!("rotate(-90 {x} {y})");
        self.svg.leaf("text", &[("class", "axis mid"), ("x", &x), ("y", &y), ("transform", &turn)], measures);
    }

    /// The rows of a chart of lanes. Returns where each begins and how high it is.
    pub fn lanes(&mut self, names: &[String]) -> Vec<(f64, f64)> {
        let (left, top, right, _) = self.edges();
        let height = self.height / names.len().max(1) as f64;
        let mut places = Vec::with_capacity(names.len());
        for (number, name) in names.iter().enumerate() {
            let y = top + number as f64 * height;
            self.line("grid", (left, y + height), (right, y + height));
            self.text("tick end", left - 6.0, y + height / 2.0 + 4.0, name);
            places.push((y, height));
        }
        places
    }

    fn bands(&mut self, faults: &[Installed<'_>]) {
        let (_, top, _, bottom) = self.edges();
        let mut free = [f64::MIN; 2];
        for fault in faults {
            if !self.shows(fault.from_ns, fault.until_ns) {
                continue;
            }
            let (x, end) = (self.x(fault.from_ns), self.x(fault.until_ns));
            let class = package_class(fault.fault);
            self.rect(&format!("band {class}"), x, top, end - x, bottom - top, &tip(fault));
            let Some(row) = free.iter().position(|until| *until <= x) else { continue };
            free[row] = x + LABEL_ROOM;
            let y = top - 4.0 - 11.0 * row as f64;
            self.text(&format!("step {class}"), x, y, &fault.fault.step.to_string());
        }
    }

    fn time_axis(&mut self, subject: &Subject<'_>) {
        let (left, top, right, bottom) = self.edges();
        let (from, until) = (subject.seconds(self.from_ns), subject.seconds(self.until_ns));
        for second in evenly(from, until, 12) {
            let share = (second - from) / (until - from);
            let x = left + share * (right - left);
            self.line("grid", (x, bottom), (x, bottom + 4.0));
            self.text("tick mid", x, bottom + 16.0, &number(second));
        }
        self.line("frame", (left, bottom), (right, bottom));
        self.line("frame", (left, top), (left, bottom));
        self.text("axis mid", (left + right) / 2.0, bottom + 32.0, "seconds since the beginning of the load");
        let mut free = [f64::MIN; 2];
        for (name, instant) in subject.phases() {
            if matches!(name, "load" | "end") || !self.shows(instant, instant) {
                continue;
            }
            let x = self.x(instant);
            self.line("phase", (x, top), (x, bottom));
            let x = (x + 3.0).min(right - PHASE_ROOM);
            let Some(row) = free.iter().position(|until| *until <= x) else { continue };
            free[row] = x + PHASE_ROOM;
            self.text("phase-name", x, top + 10.0 + 11.0 * row as f64, name);
        }
    }

    /// The whole figure. `empty` says why there is nothing to see, when nothing was drawn.
    pub fn figure(self, title: &str, caption: &str, legend: &Markup, empty: &str) -> Markup {
        let mut page = Markup::default();
        page.wrap("figure", &[], |figure| {
            figure.leaf("h3", &[], title).leaf("p", &[("class", "caption")], caption);
            if self.drawn == 0 {
                figure.leaf("p", &[("class", "nothing")], empty);
                return;
            }
            figure.add(legend);
            let view = format!("0 0 {} {}", at(WIDTH), at(TOP + self.height + BOTTOM));
            let attributes =
                [("viewBox", &*view), ("role", "img"), ("aria-label", title), ("class", "chart")];
            figure.wrap("svg", &attributes, |svg| {
                svg.add(&self.svg);
            });
        });
        page
    }
}

/// What a fault was, in a sentence.
pub fn tip(fault: &Installed<'_>) -> String {
    let Fault { step, target, nodes, on_leader, detail, .. } = fault.fault;
    let leader = if *on_leader { ", the leader among them" } else { "" };
    let (class, nodes) = (fault.class(), nodes.join(", "));
    let lasted = super::scale::duration((fault.until_ns - fault.from_ns) as f64 / 1e6);
    format!("step {step}: {class} on {target} ({nodes}{leader}), for {lasted} {detail}")
}

/// A line of keys: colour class and meaning.
pub fn legend(keys: &[(&str, &str)]) -> Markup {
    let mut line = Markup::default();
    line.wrap("p", &[("class", "legend")], |line| {
        for (class, meaning) in keys {
            line.wrap("span", &[("class", "entry")], |entry| {
                let box_ = [("viewBox", "0 0 12 12"), ("class", "key"), ("aria-hidden", "true")];
                entry.wrap("svg", &box_, |svg| {
                    let place =
                        [("class", *class), ("x", "0"), ("y", "0"), ("width", "12"), ("height", "12")];
                    svg.empty("rect", &place);
                });
                entry.text(meaning);
            });
        }
    });
    line
}
