//! Load on a cluster: callers that submit, are told, and later ask what became of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use orloj_client::{Client, Error, ListQuery};
use orloj_wire::rest::{Submit, Task};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::history::History;

/// Calls at once when tasks are looked up.
const LOOKUPS: usize = 16;

/// Makes the task of a submission from its number; its Idempotency-Key is `<name>-<number>`.
pub type Make = Arc<dyn Fn(&str, usize) -> Submit + Send + Sync>;

/// A stream of submissions.
#[derive(Clone)]
pub struct Load {
    client: Client,
    name: String,
    make: Make,
    /// How many callers submit at once.
    callers: usize,
    /// Pause of one caller between two submissions.
    pause: Duration,
}

/// A stream that runs until it is told to stop or has submitted everything.
pub struct Running {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    callers: JoinSet<History>,
}

impl Load {
    /// Submissions named `name`, made by `make`.
    pub fn new(
        client: Client,
        name: &str,
        make: impl Fn(&str, usize) -> Submit + Send + Sync + 'static,
    ) -> Load {
        Load { client, name: name.to_owned(), make: Arc::new(make), callers: 8, pause: Duration::ZERO }
    }

    /// So many callers at once; 8 without a word.
    #[must_use]
    pub fn callers(self, callers: usize) -> Load {
        Load { callers, ..self }
    }

    /// A pause of each caller between two submissions.
    #[must_use]
    pub fn pause(self, pause: Duration) -> Load {
        Load { pause, ..self }
    }

    /// Starts submitting `count` tasks.
    pub fn start(self, count: usize) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let next = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for _ in 0..self.callers {
            let (load, stop, next) = (self.clone(), Arc::clone(&stop), Arc::clone(&next));
            let acknowledged = Arc::clone(&acknowledged);
            callers.spawn(async move {
                let mut history = History::default();
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    load.submit(number, &mut history).await;
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                    sleep(load.pause).await;
                }
                history
            });
        }
        Running { stop, acknowledged, callers }
    }

    /// Submits one task until it is acknowledged; every try has the same Idempotency-Key, and one try in
    /// ten is repeated after its answer, as a caller does that lost the answer.
    async fn submit(&self, number: usize, history: &mut History) {
        let key = format!("{}-{number}", self.name);
        let task = (self.make)(&key, number);
        let tries = if number.is_multiple_of(10) { 2 } else { 1 };
        for _ in 0..tries {
            let submitted = self.until_acknowledged(&task, &key).await;
            history.acknowledged(&key, &submitted);
        }
    }

    async fn until_acknowledged(&self, task: &Submit, key: &str) -> String {
        const PATIENCE: Duration = Duration::from_secs(90);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.client.submit(task, Some(key)).await {
                Ok(submitted) => return submitted.task_id,
                Err(error) if passes(&error) && Instant::now() < deadline => {
                    sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{key} was not acknowledged within {PATIENCE:?}: {error}"),
            }
        }
    }
}

/// Whether a caller may try again: nothing was refused for good.
fn passes(error: &Error) -> bool {
    match error {
        Error::Problem(problem) => problem.status == 503 || problem.status == 429 || problem.status == 408,
        _ => error.is_unknown(),
    }
}

impl Running {
    /// How many submissions have been acknowledged by now.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Lets every caller finish the submission that it is at.
    pub async fn stop(self) -> History {
        self.stop.store(true, Ordering::Relaxed);
        self.finish().await
    }

    /// Waits until everything is submitted.
    ///
    /// # Panics
    /// A submission was refused, or was not acknowledged in time.
    pub async fn finish(mut self) -> History {
        let mut history = History::default();
        while let Some(caller) = self.callers.join_next().await {
            match caller {
                Ok(part) => history.merge(part),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
        history
    }
}

/// Waits until every task of a history has ended, and returns them as they ended.
///
/// # Panics
/// A task is unknown, or has not ended by the deadline.
pub async fn outcomes(client: &Client, history: &History, patience: Duration) -> Vec<Task> {
    let deadline = Instant::now() + patience;
    let places = Arc::new(Semaphore::new(LOOKUPS));
    let mut lookups = JoinSet::new();
    for (_, id) in history.tasks() {
        let (client, id, places) = (client.clone(), id.to_owned(), Arc::clone(&places));
        lookups.spawn(async move {
            let _place = places.acquire_owned().await.expect("nobody closes it");
            outcome(&client, &id, deadline).await
        });
    }
    let mut tasks = Vec::with_capacity(history.len());
    while let Some(task) = lookups.join_next().await {
        match task {
            Ok(task) => tasks.push(task),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    tasks
}

/// The ids of every task that the caller has: none may be there that no submission was answered with.
///
/// # Panics
/// A page cannot be read.
pub async fn listed(client: &Client) -> BTreeSet<String> {
    let mut query = ListQuery { page_size: Some(100), ..ListQuery::default() };
    let mut ids = BTreeSet::new();
    loop {
        let page = client.list(&query).await.expect("a page of the tasks");
        ids.extend(page.tasks.into_iter().map(|task| task.task_id));
        query.page_token = page.next_page_token;
        if query.page_token.is_none() {
            return ids;
        }
    }
}

async fn outcome(client: &Client, id: &str, deadline: Instant) -> Task {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match client.wait(id, left).await {
            Ok(task) => return task,
            Err(error) if passes(&error) && Instant::now() < deadline => {}
            Err(Error::NotFinished { .. }) => {
                let task = client.get(id).await;
                panic!("{id} has not ended by the deadline: {task:?}");
            }
            Err(error) => panic!("{id}: {error}"),
        }
    }
}
