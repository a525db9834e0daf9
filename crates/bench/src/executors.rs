//! Executors that record what their handlers see: the product's executor library, with its journal on the disk,
//! under one handler that notes when it is started.

use std::fs::{self, File};
use std::io::{self, BufRead, BufWriter, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orloj_executor::{
    AttemptContext, Handle, Handler, HandlerError, HandlerOutput, Handlers, Options, Service,
};
use orloj_net::TlsOptions;
use orloj_wire::clock::SystemClock;
use orloj_wire::time::Time;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::load::{HANDLER, PartError, lines, say};
use crate::message::{Counts, ExecutorsSpec, FromExecutors, ToExecutors};
use crate::record::{Record, Summary, gap_after};
use crate::seen::Seen;

/// How often it is told how many are done.
const TELL_EVERY: Duration = Duration::from_millis(50);
/// How often it is looked whether all reports have been acknowledged.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Every so many times the count is also written to its file.
const WRITE_EVERY: u32 = 5;

/// Everything that was recorded.
struct Records {
    clock: SystemClock,
    all: Mutex<Vec<Record>>,
    /// The submitted tasks that have returned.
    returned: Mutex<Seen>,
    own: AtomicU64,
    warm: AtomicU64,
    warm_first: u64,
    sleep_ms: u64,
}

impl Records {
    fn new(warm_first: u64, sleep_ms: u64) -> Records {
        Records {
            clock: SystemClock::new(),
            all: Mutex::default(),
            returned: Mutex::default(),
            own: AtomicU64::new(0),
            warm: AtomicU64::new(0),
            warm_first,
            sleep_ms,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a start; returns its place.
    fn start(&self, id: u64, due_us: i64) -> usize {
        let record = Record { id, due_us, start_us: self.clock.wall_us(), end_us: 0 };
        let mut all = self.lock();
        all.push(record);
        all.len() - 1
    }

    /// Notes that the handler has returned. A task of a job counts each time, since all of them carry the job's id.
    fn end(&self, place: usize, of_job: bool) {
        let end_us = self.clock.wall_us();
        let id = {
            let record = &mut self.lock()[place];
            record.end_us = end_us;
            record.id
        };
        if id >= self.warm_first {
            self.warm.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let first = of_job || self.returned.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        self.own.fetch_add(u64::from(first), Ordering::Relaxed);
    }

    fn counts(&self) -> Counts {
        Counts { own: self.own.load(Ordering::Relaxed), warm: self.warm.load(Ordering::Relaxed) }
    }

    fn own_records(&self) -> Vec<Record> {
        self.lock().iter().filter(|record| record.id < self.warm_first).copied().collect()
    }
}

/// When all that had been done had been acknowledged, too, as far as looks tell that come one after the other.
#[derive(Debug, Default)]
struct Settled {
    done: u64,
    open: bool,
    at_us: i64,
}

impl Settled {
    /// One look: handlers that have returned, reports that wait for an acknowledgement, and when that was.
    fn look(&mut self, done: u64, waiting: usize, now_us: i64) {
        // A report is on its way to the disk for a while before it waits, so what is done counts from the next look on.
        let moves = done != self.done || waiting > 0;
        if self.open && !moves {
            self.at_us = now_us;
        }
        self.open = moves;
        self.done = done;
    }

    /// The instant; 0 while something has not been acknowledged.
    fn at_us(&self) -> i64 {
        if self.open { 0 } else { self.at_us }
    }
}

/// The handler of every task of a bench.
struct Bench {
    records: Arc<Records>,
}

impl Handler for Bench {
    async fn run(&self, context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
        let params = context.params();
        let Some(Aim { id, due_us, of_job }) = aim(params) else {
            return Err(HandlerError::fatal("the parameters of a bench task are id, and dueUs or dueAt"));
        };
        let place = self.records.start(id, due_us);
        let sleep_ms = params["sleepMs"].as_u64().unwrap_or(self.records.sleep_ms);
        if sleep_ms > 0 {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(sleep_ms)) => {}
                () = context.cancelled() => return Err(HandlerError::retryable("stopped")),
            }
        }
        self.records.end(place, of_job);
        Ok(HandlerOutput::none())
    }
}

/// What a task says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Aim {
    id: u64,
    /// When it was due, in µs since the Unix epoch.
    due_us: i64,
    /// Whether a job made it.
    of_job: bool,
}

/// A submission says when it was due as a number, and a job as the instant that its placeholder stands for.
fn aim(params: &Value) -> Option<Aim> {
    let id = params["id"].as_u64()?;
    Some(match params["dueAt"].as_str() {
        Some(text) => Aim { id, due_us: Time::parse(text).ok()?.0.checked_mul(1_000)?, of_job: true },
        None => Aim { id, due_us: params["dueUs"].as_i64()?, of_job: false },
    })
}

/// Runs executors as the first line of `input` says, until SIGTERM; then writes the records where that was
/// asked for.
///
/// # Errors
/// A line that is not a message, an executor that does not start, files that cannot be written.
pub async fn run(input: impl BufRead + Send + 'static) -> Result<(), PartError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut orders = lines(input, |_: &ToExecutors| true)?;
    let Some(ToExecutors::Start(spec)) = orders.recv().await.transpose()? else {
        return Err(PartError::Order("start"));
    };
    let records = Arc::new(Records::new(spec.warm_first, spec.sleep_ms));
    let executors = start(&spec, &records).await?;
    say(&FromExecutors::Ready)?;
    let mut told = Counts::default();
    let mut ticks = 0_u32;
    let mut tick = tokio::time::interval(TELL_EVERY);
    let (mut look, mut settled) = (tokio::time::interval(LOOK_EVERY), Settled::default());
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = tick.tick() => {
                ticks = ticks.wrapping_add(1);
                let now = records.counts();
                if now != told {
                    told = now;
                    say(&FromExecutors::Done(now))?;
                }
                if let Some(path) = spec.progress.as_ref().filter(|_| ticks.is_multiple_of(WRITE_EVERY)) {
                    fs::write(path, now.own.to_string())?;
                }
            }
            _ = look.tick() => {
                let waiting = executors.iter().map(Handle::waiting_reports).sum::<usize>();
                settled.look(records.counts().own, waiting, records.clock.wall_us());
            }
            // A file of orders ends long before the executors do.
            Some(order) = orders.recv() => obey(order?, &records, &settled)?,
        }
    }
    executors.iter().for_each(Handle::shutdown);
    for executor in &executors {
        executor.stopped().await?;
    }
    if let Some(path) = &spec.records {
        write(path, &records.lock())?;
    }
    Ok(())
}

fn obey(order: ToExecutors, records: &Records, settled: &Settled) -> Result<(), PartError> {
    let ToExecutors::Summary { kills_us, among } = order else { return Err(PartError::Order("start")) };
    let mut own = records.own_records();
    own.retain(|record| among.is_none_or(|among| among.has(record.due_us)));
    let summary = Summary { settled_us: settled.at_us(), ..Summary::of(&mut own) };
    let gaps_us = kills_us.iter().map(|kill| gap_after(&own, *kill)).collect();
    Ok(say(&FromExecutors::Summary { summary, gaps_us })?)
}

/// The id of the executor with this number, from 1.
pub fn id(number: u32) -> String {
    format!("bench-{number}")
}

async fn start(spec: &ExecutorsSpec, records: &Arc<Records>) -> Result<Vec<Handle>, PartError> {
    let mut executors = Vec::new();
    for number in 1..=spec.count {
        let id = id(number);
        let options = Options {
            dir: spec.dir.join(&id),
            replicas: spec.replicas.clone(),
            secret: Some(spec.secret.clone().into()),
            slots: Some(spec.slots),
            tls: spec.certificates.as_deref().map(|files| certificate(files, &id)),
            id,
            ..Options::default()
        };
        let handlers = Handlers::new().with(HANDLER, Bench { records: Arc::clone(records) })?;
        executors.push(Service::start(options, handlers, Arc::new(SystemClock::new())).await?);
    }
    Ok(executors)
}

/// What an executor of this id shows and trusts.
fn certificate(files: &Path, id: &str) -> TlsOptions {
    TlsOptions {
        ca: files.join("ca.pem"),
        cert: files.join(format!("{id}.pem")),
        key: files.join(format!("{id}.key")),
        reload_ms: u64::try_from(TlsOptions::RELOAD.as_millis()).unwrap_or(u64::MAX),
    }
}

fn write(path: &Path, records: &[Record]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    records.iter().try_for_each(|record| file.write_all(&record.to_bytes()))?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_submissions_and_of_jobs_say_when_they_were_due() {
        let aim = |text| aim(&serde_json::from_str(text).unwrap());
        let submitted = Aim { id: 7, due_us: 1_500, of_job: false };
        assert_eq!(aim(r#"{"id":7,"dueUs":1500}"#), Some(submitted));
        let fired = Aim { id: 7, due_us: 2_500_000, of_job: true };
        assert_eq!(aim(r#"{"id":7,"dueAt":"1970-01-01T00:00:02.500Z"}"#), Some(fired));
        assert_eq!(aim(r#"{"id":7,"dueAt":"${scheduledAt}"}"#), None);
        assert_eq!(aim(r#"{"dueUs":1500}"#), None);
    }

    #[test]
    fn all_is_settled_when_nothing_is_done_and_nothing_waits_any_more() {
        let mut settled = Settled::default();
        settled.look(0, 0, 10);
        assert_eq!(settled.at_us(), 0, "nothing was done");
        settled.look(5, 0, 20);
        assert_eq!(settled.at_us(), 0, "their reports may be on their way to the disk");
        settled.look(5, 3, 30);
        assert_eq!(settled.at_us(), 0);
        settled.look(5, 0, 40);
        settled.look(5, 0, 50);
        assert_eq!(settled.at_us(), 40);
        settled.look(5, 1, 60);
        assert_eq!(settled.at_us(), 0, "one came late");
        settled.look(5, 0, 70);
        assert_eq!(settled.at_us(), 70);
    }

    #[test]
    fn starts_and_ends_are_told_apart_from_the_warm_up() {
        let records = Records::new(100, 0);
        let (first, second) = (records.start(1, 5), records.start(100, 6));
        assert_eq!(records.counts(), Counts::default());
        records.end(second, false);
        assert_eq!(records.counts(), Counts { own: 0, warm: 1 });
        records.end(first, false);
        let own = records.own_records();
        assert_eq!((own.len(), own[0].id, own[0].end_us >= own[0].start_us), (1, 1, true));
        records.end(records.start(1, 5), false);
        assert_eq!(records.counts().own, 1, "a task that runs twice is done once");
        records.end(records.start(1, 6), true);
        assert_eq!(records.counts().own, 2, "the tasks of a job share its id");
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("r"), &own).unwrap();
        assert_eq!(fs::metadata(dir.path().join("r")).unwrap().len(), 32);
    }
}
