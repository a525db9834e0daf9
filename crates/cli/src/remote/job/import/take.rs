//! Makes the imported jobs, or asks the cluster what would become of them. Each is tried, and each is told.

use std::process::ExitCode;

use orloj_client::{Client, Error};
use orloj_wire::rest::job::{Job, JobSpec};
use serde::Serialize;

use super::super::apply::{found, job_change, value};
use super::super::diff::Difference;
use super::super::fate::{self, Fate, Refused};
use super::{Import, Imported, LeftOut};
use crate::remote::output;

/// The note of a job that is paused from its beginning.
const WHY_PAUSED: &str = "it was switched off where it comes from";

/// What a run of the command shall do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// Replace jobs that are there already and differ.
    pub(super) update: bool,
    /// Change nothing.
    pub(super) dry_run: bool,
}

/// One job, and what became of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Taken<'a> {
    #[serde(flatten)]
    imported: &'a Imported,
    /// Of a dry run: what would become of it. Absent where no cluster was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Fate>,
    /// Why it was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Where the job that is there is another one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<Difference>,
    /// Its handlers that no executor has at the moment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown_handlers: Vec<String>,
}

/// What a file comes to, and what became of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report<'a> {
    jobs: Vec<Taken<'a>>,
    left_out: &'a [LeftOut],
    #[serde(skip)]
    wish: Wish,
    /// A cluster was asked, or would have been had there been a job.
    #[serde(skip)]
    asked: bool,
}

impl<'a> Report<'a> {
    /// Nothing is known yet of what a cluster says.
    pub(super) fn of(import: &'a Import, wish: Wish) -> Self {
        let taken = |imported| Taken {
            imported,
            result: None,
            why: None,
            differences: Vec::new(),
            unknown_handlers: Vec::new(),
        };
        Report {
            jobs: import.jobs.iter().map(taken).collect(),
            left_out: &import.left_out,
            wish,
            asked: false,
        }
    }

    /// Goes through the jobs, one by one, until nobody answers any more.
    pub(super) async fn take(&mut self, client: &Client) {
        self.asked = true;
        let mut lost = false;
        for taken in &mut self.jobs {
            if lost {
                taken.result = Some(Fate::NotTried);
                continue;
            }
            match taken.go(client, self.wish).await {
                Ok(fate) => taken.result = Some(fate),
                Err(refused) => {
                    lost = refused.fate != Fate::Refused;
                    (taken.result, taken.why) = (Some(refused.fate), Some(refused.why));
                }
            }
        }
    }

    /// Those that were left out have been refused, too.
    fn fates(&self) -> Vec<Fate> {
        let jobs = self.jobs.iter().filter_map(|taken| taken.result);
        jobs.chain(self.left_out.iter().map(|_| Fate::Refused)).collect()
    }

    /// The code of the command.
    pub(super) fn code(&self) -> ExitCode {
        fate::code_of(&self.fates(), &self.summary())
    }

    /// How many jobs there are, and of what fate.
    fn summary(&self) -> String {
        let fates: Vec<Fate> = self.jobs.iter().filter_map(|taken| taken.result).collect();
        let (jobs, left) = (self.jobs.len(), self.left_out.len());
        let summary = if self.asked { format!(" ({})", fate::summary(&fates)) } else { String::new() };
        let dry = if self.wish.dry_run { "dry run: " } else { "" };
        format!("{dry}{jobs} jobs{summary}, {left} left out")
    }

    /// Prints it for people.
    pub(super) fn show(&self) -> std::io::Result<()> {
        self.jobs.iter().try_for_each(|taken| taken.show(self.wish))?;
        for left in self.left_out {
            output::line(&format!("{}: left out: {}", left.name, left.why))?;
        }
        output::line(&self.summary())?;
        match (self.wish.dry_run, self.asked) {
            (false, _) => Ok(()),
            (true, true) => output::line(
                "Not known before the import: what executors allow a handler to do, such as their lists of commands, \
                 and what changes until then.",
            ),
            (true, false) => output::line(
                "No cluster was asked (ORLOJ_URL is not set): which jobs are there already, which handlers there are \
                 and what the cluster refuses is not known.",
            ),
        }
    }
}

impl Taken<'_> {
    fn refused(&self, error: Error) -> Refused {
        Refused::by(error, &value(&self.imported.job))
    }

    /// What an error says that came before anything was asked for.
    fn unasked(&self, error: Error) -> Refused {
        let refused = self.refused(error);
        let fate = if refused.fate == Fate::Unknown { Fate::NotTried } else { refused.fate };
        Refused { fate, ..refused }
    }

    async fn go(&mut self, client: &Client, wish: Wish) -> Result<Fate, Refused> {
        let (id, job) = (self.imported.job_id.as_str(), &self.imported.job);
        let known = found(client.job(id).await).map_err(|error| self.unasked(error))?;
        let change = job_change(id, job, known.clone());
        let change = change.map_err(|failure| Refused { fate: Fate::Refused, why: failure.to_string() })?;
        self.differences = change.differences;
        match change.change {
            "none" => return Ok(Fate::Unchanged),
            "change" if !wish.update => return Ok(Fate::Kept),
            _ => {}
        }
        let checked = client.check_job(id, job, Some(change.version)).await;
        self.unknown_handlers = checked.map_err(|error| self.unasked(error))?.unknown_handlers;
        match (wish.dry_run, known) {
            (false, None) => self.create(client).await.map(|()| Fate::Created),
            (false, Some(known)) => self.update(client, &known).await.map(|()| Fate::Updated),
            (true, None) => Ok(Fate::Created),
            (true, Some(_)) => Ok(Fate::Updated),
        }
    }

    /// A job that is to be paused gets its triggers once it is: so it never fires in between.
    async fn create(&self, client: &Client) -> Result<(), Refused> {
        let (id, job) = (self.imported.job_id.as_str(), &self.imported.job);
        if !self.imported.paused {
            return client.put_job(id, job, Some(0)).await.map(drop).map_err(|error| self.refused(error));
        }
        let bare = JobSpec { triggers: Vec::new(), ..job.clone() };
        let made = client.put_job(id, &bare, Some(0)).await.map_err(|error| self.refused(error))?;
        let half = |what: &str, error| {
            let refused = self.refused(error);
            Refused { why: format!("it was created {what}, and then: {}", refused.why), ..refused }
        };
        let paused = client.pause_job(id, Some(WHY_PAUSED)).await;
        paused.map_err(|error| half("without triggers, and is not paused", error))?;
        let put = client.put_job(id, job, Some(made.version)).await;
        put.map(drop).map_err(|error| half("paused and without triggers", error))
    }

    async fn update(&self, client: &Client, known: &Job) -> Result<(), Refused> {
        let (id, job) = (self.imported.job_id.as_str(), &self.imported.job);
        if self.imported.paused && known.state.paused.is_none() {
            client.pause_job(id, Some(WHY_PAUSED)).await.map_err(|error| self.refused(error))?;
        }
        let put = client.put_job(id, job, Some(known.version)).await;
        put.map(drop).map_err(|error| self.refused(error))
    }

    fn show(&self, wish: Wish) -> std::io::Result<()> {
        let imported = self.imported;
        let made = |word: &str| match (wish.dry_run, imported.paused) {
            (true, true) => format!("would be {word}, paused"),
            (true, false) => format!("would be {word}"),
            (false, true) => format!("{word}, paused"),
            (false, false) => word.to_owned(),
        };
        let what = match self.result {
            None | Some(Fate::Created) => made("created"),
            Some(Fate::Updated) => made("updated"),
            Some(Fate::Unchanged) => "unchanged: it is there already".to_owned(),
            Some(Fate::Kept) => format!(
                "is there already and differs at {}; it stays as it is, --update would replace it",
                places(&self.differences)
            ),
            Some(Fate::Refused) if wish.dry_run => "would be refused".to_owned(),
            Some(Fate::Refused) => "refused".to_owned(),
            Some(Fate::Unknown) => "not known whether it was made".to_owned(),
            Some(Fate::NotTried) => "not tried".to_owned(),
        };
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        output::line(&format!("{}: {what}{why}", imported.job_id))?;
        imported.joined.iter().try_for_each(|step| output::line(&format!("  step: {step}")))?;
        imported.notes.iter().try_for_each(|note| output::line(&format!("  does not map: {note}")))?;
        let no_handler = |name| {
            output::line(&format!("  no executor has its handler {name:?} yet: its tasks wait for one"))
        };
        self.unknown_handlers.iter().try_for_each(no_handler)
    }
}

/// The places of differences: the first of them, and how many more there are.
fn places(differences: &[Difference]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = differences.iter().take(SHOWN).map(|one| one.pointer.as_str()).collect();
    match differences.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more places", shown.join(", ")),
    }
}
