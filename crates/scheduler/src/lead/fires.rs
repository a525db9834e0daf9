//! What a look at jobs has come to goes into the log, and what the log answers goes back to the duties.

use std::collections::HashMap;
use std::sync::Arc;

use orloj_model::id::TaskId;
use orloj_model::task::TaskSpec;
use orloj_model::{Command, Refusal, Reply};
use orloj_raft_store::{Applied, Fault, ProposeError};
use tracing::{debug, warn};

use super::jobs::Looked;
use super::late::LateView;
use super::work::Done;
use super::{Ended, Leader, lost_or_again, rows};
use crate::core::{After, Duty, Now};

/// A batch that was proposed.
pub(super) struct Proposed {
    /// Its duties; what follows is changed by refusals.
    duties: Vec<(Duty, After)>,
    /// What each command is for, in order.
    places: Vec<Place>,
}

/// What a command of a batch is for.
enum Place {
    /// The duty of this number.
    Duty(usize),
    /// This grant, of a task that the command before makes, and what will be known of the task.
    Grant(Command, Option<Arc<TaskSpec>>),
}

impl Leader<'_> {
    /// A batch has been looked at: what it proposes goes out, with grants of the tasks that it makes.
    pub(super) fn looked(&mut self, looked: Result<Looked, Fault>, now: Now) -> Result<(), Ended> {
        let Looked { settled, proposing, planned } = looked?;
        let view = LateView::of(&self.shared.store);
        let mut specs: HashMap<TaskId, Arc<TaskSpec>> = HashMap::new();
        for task in planned.iter().filter_map(|planned| planned.task.as_ref()) {
            rows::know_limit(&mut self.core, &view, &task.spec)?;
            specs.insert(task.shard.task, Arc::clone(&task.spec));
        }
        drop(view);
        self.core.looked(settled, !planned.is_empty(), now);
        if planned.is_empty() {
            return Ok(());
        }
        let place = |(duty, command): (Option<usize>, Command)| match duty {
            Some(duty) => (Place::Duty(duty), command),
            None => {
                let spec = granted_task(&command).and_then(|task| specs.remove(&task));
                (Place::Grant(command.clone(), spec), command)
            }
        };
        let (places, commands): (Vec<_>, Vec<_>) =
            self.core.with_grants(planned, now).into_iter().map(place).unzip();
        let proposed = Proposed { duties: proposing, places };
        let (store, round) = (self.shared.store.clone(), self.round);
        self.spawn(async move { Done::Jobs(proposed, store.propose_in_round(round, commands).await) });
        Ok(())
    }

    /// A batch has been applied, or has come to nothing.
    pub(super) fn jobs_done(
        &mut self,
        proposed: Proposed,
        result: Result<Vec<Applied>, ProposeError>,
        now: Now,
    ) -> Result<(), Ended> {
        let Proposed { mut duties, places } = proposed;
        match result {
            Ok(applied) => {
                for (place, Applied { reply, .. }) in places.into_iter().zip(applied) {
                    match place {
                        Place::Duty(duty) => self.answered(&mut duties[duty], &reply)?,
                        Place::Grant(grant, spec) => self.grant_answered(&grant, spec, &reply, now)?,
                    }
                }
            }
            Err(ProposeError::Overloaded | ProposeError::DiskLow) => {
                duties.iter_mut().for_each(|(_, after)| *after = After::Soon);
                let grant = |place| if let Place::Grant(grant, _) = place { Some(grant) } else { None };
                let grants: Vec<Command> = places.into_iter().filter_map(grant).collect();
                self.core.not_fired(&grants, now);
            }
            Err(error) => return Err(lost_or_again(&error)),
        }
        self.core.jobs_done(duties, now);
        Ok(())
    }

    /// One of a duty's commands was applied.
    fn answered(&self, (duty, after): &mut (Duty, After), reply: &Reply) -> Result<(), Ended> {
        match reply {
            Reply::Fired { .. } => {
                self.shared.metrics.fires.inc();
            }
            Reply::FireSkipped { .. } => {
                self.shared.metrics.fire_skips.inc();
            }
            Reply::Refused(refusal) => match refused(duty, refusal)? {
                // The first refusal of a chain says why; the others only follow from it.
                Some(again) if *after == After::Rest => *after = again,
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// The grant of a task that was made in the same entry.
    fn grant_answered(
        &mut self,
        grant: &Command,
        spec: Option<Arc<TaskSpec>>,
        reply: &Reply,
        now: Now,
    ) -> Result<(), Ended> {
        if let (Command::Grant { shard, .. }, Reply::Granted { .. }, Some(spec)) = (grant, reply, spec)
            && let Some(since) = self.core.granting((*shard).into())
        {
            // The push needs no look at its rows, although the event of its creation may be on its way.
            self.fresh.add_granted(shard.task, since, &spec);
        }
        self.count(grant, reply, now.cluster_ms);
        if self.core.applied(grant, reply, now) { Ok(()) } else { Err(Ended::Lost) }
    }
}

/// The task that a grant is for.
fn granted_task(command: &Command) -> Option<TaskId> {
    match command {
        Command::Grant { shard, .. } => Some(shard.task),
        _ => None,
    }
}

/// What a refusal means for the duty that it was met in.
fn refused(duty: &Duty, refusal: &Refusal) -> Result<Option<After>, Ended> {
    Ok(match refusal {
        Refusal::StaleRound { .. } => return Err(Ended::Lost),
        // Gone, or done by a command that came before.
        Refusal::JobNotFound | Refusal::BackfillNotFound => None,
        Refusal::NotNext if matches!(duty, Duty::Spread(_)) => None,
        // Its rows have changed since they were read, as a rule; an event of that is on its way, and one look more
        // than needed costs nothing.
        Refusal::StaleJob { .. } | Refusal::NotNext | Refusal::VersionMismatch { .. } => Some(After::Soon),
        Refusal::NotDue { due_at } => Some(After::At(*due_at)),
        Refusal::CalendarSpreading { .. } | Refusal::TaskExists => Some(After::Soon),
        other => {
            warn!(?duty, refusal = ?other, "a job's command was refused");
            Some(After::Soon)
        }
    })
    .inspect(|after| debug!(?duty, ?refusal, ?after, "refused"))
}
