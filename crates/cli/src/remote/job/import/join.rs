//! Jobs that the other scheduler starts after one another become workflows. Pure.

use std::collections::{BTreeMap, BTreeSet};

use orloj_wire::json::Strict;
use orloj_wire::rest::job::JobSpec;
use orloj_wire::rest::step::STEPS_LIMIT;
use orloj_wire::rest::{DependsOnEnd, StepNeed, StepSpec};
use serde_json::json;

use super::{Import, Imported, faults_of};

impl Import {
    /// Makes a workflow of each job that others run after: it is the first step, and they follow when it has succeeded.
    /// One that has triggers of its own stays a job beside that; any other is a step alone. Where that is not possible
    /// everything stays as it is, and each job that would have followed is named with the reason.
    pub(super) fn join(&mut self, now: i64) {
        let family = Family::of(&self.jobs);
        let mut steps_alone = BTreeSet::new();
        for first in &mut self.jobs {
            if let Some(parent) =
                first.runs_after.as_ref().filter(|parent| !family.jobs.contains_key(*parent))
            {
                first.notes.push(format!("it ran after {parent}, which is not in the file, or is left out"));
            }
            let Some(children) = family.children.get(&first.job_id) else { continue };
            match family.workflow(first, now) {
                Ok(job) => {
                    for step in &job.steps[1..] {
                        let alone =
                            family.jobs.get(&step.name).is_some_and(|job| job.job.triggers.is_empty());
                        let beside =
                            if alone { "no job of its own" } else { "and a job of its own beside that" };
                        first.joined.push(format!("{}, {beside}", step.name));
                        steps_alone.extend(alone.then(|| step.name.clone()));
                    }
                    first.job = job;
                }
                Err(why) => {
                    let note = |child: &String| format!("{child} ran after it, and does not here: {why}");
                    first.notes.extend(children.iter().map(note));
                }
            }
        }
        self.jobs.retain(|job| !steps_alone.contains(&job.job_id));
    }
}

/// Who runs after whom.
struct Family {
    jobs: BTreeMap<String, Imported>,
    children: BTreeMap<String, Vec<String>>,
}

impl Family {
    fn of(jobs: &[Imported]) -> Family {
        let mut children: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for job in jobs {
            let before = job.runs_before.iter().map(|child| (&job.job_id, child));
            let after = job.runs_after.iter().map(|parent| (parent, &job.job_id));
            for (parent, child) in before.chain(after) {
                let known = children.entry(parent.clone()).or_default();
                if !known.contains(child) {
                    known.push(child.clone());
                }
            }
        }
        let jobs = jobs.iter().map(|job| (job.job_id.clone(), job.clone())).collect();
        Family { jobs, children }
    }

    /// The workflow that begins with a job.
    fn workflow(&self, first: &Imported, now: i64) -> Result<JobSpec, String> {
        let mut steps = Vec::new();
        self.collect(&first.job_id, &mut Vec::new(), &mut steps)?;
        let job = &first.job;
        let workflow = JobSpec {
            job_id: job.job_id.clone(),
            title: job.title.clone(),
            triggers: job.triggers.clone(),
            misfire: job.misfire,
            overlap: job.overlap,
            allow_unknown_handler: job.allow_unknown_handler,
            steps,
            ..JobSpec::new(job.handler.clone(), json!({}))
        };
        match faults_of(&first.job_id, &workflow, now) {
            None => Ok(workflow),
            Some(faults) => Err(faults),
        }
    }

    /// Adds a job and all that follow it. `path` are those on the way to it.
    fn collect<'a>(
        &'a self,
        id: &'a str,
        path: &mut Vec<&'a str>,
        steps: &mut Vec<StepSpec>,
    ) -> Result<(), String> {
        if let Some(from) = path.iter().position(|job| *job == id) {
            return Err(format!("a cycle: {} before {id}", path[from..].join(" before ")));
        }
        if steps.iter().any(|step| step.name == id) {
            return Err(format!("{id} follows several of them and ran once for each, and a step runs once"));
        }
        if steps.len() == STEPS_LIMIT {
            return Err(format!("more than {STEPS_LIMIT} jobs follow one another"));
        }
        let Some(imported) = self.jobs.get(id) else {
            return Err(format!("{id} is not in the file, or is left out"));
        };
        steps.push(step(id, &imported.job, path.last().copied()));
        path.push(id);
        for child in self.children.get(id).into_iter().flatten() {
            self.collect(child, path, steps)?;
        }
        path.pop();
        Ok(())
    }
}

/// A job as a step that runs when the one before it has succeeded.
fn step(name: &str, job: &JobSpec, parent: Option<&str>) -> StepSpec {
    let need = parent.map(|step| StepNeed { step: step.to_owned(), on: DependsOnEnd::Success });
    StepSpec {
        params: Strict(job.params.0.clone()),
        depends_on: need.into_iter().collect(),
        priority: job.priority,
        timeout_ms: job.timeout_ms,
        retry: job.retry.clone(),
        labels: job.labels.clone(),
        strategy: job.strategy.clone(),
        ..StepSpec::new(name, job.handler.clone(), json!({}))
    }
}
