//! A replica's own table, read at the end of a run page by page, as one piece.

use std::time::Duration;

use orloj_jepsen_agents::seen;
use orloj_jepsen_core::event::{FinalTable, FinalTask, What};
use orloj_wire::rest;
use serde::Deserialize;

use crate::place::Place;
use crate::recorder::Recorder;
use crate::replica::Replica;

/// Tasks of one page.
const PAGE: usize = 1_000;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Default, Deserialize)]
struct Page {
    applied: u64,
    digest: String,
    tasks: Vec<Owned>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owned {
    #[serde(default)]
    idempotency_key: Option<String>,
    #[serde(flatten)]
    task: rest::Task,
}

/// Reads the table and records it. Reads it again while it changes under the reading, or while the replica does not
/// answer: how long, whoever runs this decides.
pub async fn read(replica: Replica, place: Place, recorder: &Recorder) {
    let (src, node) = (format!("probe-{place}"), place.to_string());
    let table = loop {
        match read_once(&replica).await {
            Ok(table) => break table,
            Err(problem) => {
                tracing::warn!(%place, problem, "the table could not be read");
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    let (table, tasks) = table.whole();
    for task in tasks {
        recorder.note(&src, Some(node.clone()), What::FinalTask(task));
    }
    recorder.note(&src, Some(node), What::FinalTable(table));
}

async fn read_once(replica: &Replica) -> Result<Pages, String> {
    let (mut pages, mut after) = (Pages::default(), String::new());
    loop {
        let body = replica.clone().debug(&format!("/debug/tasks?limit={PAGE}{after}")).await?;
        let page: Page = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        match pages.add(page)? {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(pages),
        }
    }
}

/// The pages so far.
#[derive(Debug, Default)]
struct Pages {
    /// What the replica had applied at the first page, and the digest of its tables there.
    first: Option<(u64, String)>,
    tasks: Vec<FinalTask>,
}

impl Pages {
    /// Adds a page; where the next one begins.
    ///
    /// # Errors
    /// It is of another state than the first one.
    fn add(&mut self, page: Page) -> Result<Option<String>, String> {
        let (applied, digest) = self.first.get_or_insert_with(|| (page.applied, page.digest.clone()));
        if (*applied, &*digest) != (page.applied, &page.digest) {
            return Err(format!(
                "the table has changed between two pages: {digest} at {applied}, {} at {}",
                page.digest, page.applied
            ));
        }
        let tasks = page.tasks.into_iter();
        self.tasks.extend(tasks.map(|owned| seen::final_task(&owned.task, owned.idempotency_key)));
        Ok(page.next)
    }

    fn whole(self) -> (FinalTable, Vec<FinalTask>) {
        let (applied, digest) = self.first.unwrap_or_default();
        (FinalTable { applied, digest, tasks: self.tasks.len() as u64, like: None }, self.tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(applied: u64, digest: &str) -> Page {
        Page { applied, digest: digest.into(), next: Some("tsk_9".into()), ..Page::default() }
    }

    #[test]
    fn pages_of_two_states_are_no_table() {
        let mut pages = Pages::default();
        assert_eq!(pages.add(page(7, "aa")), Ok(Some("tsk_9".into())));
        assert_eq!(pages.add(page(7, "aa")), Ok(Some("tsk_9".into())));
        assert!(pages.add(page(7, "bb")).unwrap_err().contains("has changed"));
        assert!(pages.add(page(8, "aa")).is_err(), "a digest of another position says nothing");
        let (table, tasks) = pages.whole();
        assert_eq!((table.applied, table.digest.as_str(), tasks.len()), (7, "aa", 0));
    }
}
