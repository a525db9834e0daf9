//! From the steps of a body to a workflow.

use std::collections::BTreeMap;

use orloj_model::command::{Command, EditJob, GraphCommand, JobCommand, PutFlow, PutJob, PutOfCaller};
use orloj_model::graph::{JobFlow, Need, Step};
use orloj_model::query::JobView;
use orloj_model::trigger::Missed;
use orloj_model::{Refusal, Reply};
use orloj_raft_store::Applied;
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::StepSpec;
use orloj_wire::rest::job::JobSpec;
use orloj_wire::rest::step::in_order;

use super::Call;
use super::define::template;
use crate::ops::graph::{on, on_shard_failure};
use crate::ops::submit;
use crate::outcome::Failure;

impl Call<'_> {
    /// What a body says beyond its definition. Its own faults have been looked for; here are those of the steps'
    /// tasks, each with the place of its step.
    pub(super) fn flow(&self, spec: &JobSpec, known: Option<&JobView>) -> Result<JobFlow, Failure> {
        // The body's faults name a cycle.
        for step in &spec.steps {
            self.may_use(&step.handler)?;
        }
        let order = in_order(&spec.steps).unwrap_or_default();
        let places: BTreeMap<&str, u16> =
            order.iter().map(|place| spec.steps[*place].name.as_str()).zip(0..).collect();
        let (mut steps, mut faults) = (Vec::with_capacity(order.len()), Vec::new());
        let mut code = Code::ValidationFailed;
        for place in order {
            match self.step(&spec.steps[place], spec.allow_unknown_handler, known, &places) {
                Ok(step) => steps.push(step),
                Err(failure) if !failure.errors.is_empty() => {
                    code = failure.code;
                    faults.extend(failure.errors.iter().map(|fault| FieldError {
                        pointer: format!("/steps/{place}{}", fault.pointer),
                        ..fault.clone()
                    }));
                }
                Err(failure) => return Err(failure),
            }
        }
        match faults.is_empty() {
            true => Ok(JobFlow { on_shard_failure: on_shard_failure(spec.on_shard_failure), steps }),
            false => Err(Failure::fields(code, faults)),
        }
    }

    fn step(
        &self,
        spec: &StepSpec,
        allow_unknown_handler: bool,
        known: Option<&JobView>,
        places: &BTreeMap<&str, u16>,
    ) -> Result<Step, Failure> {
        let access_key = &self.request.credentials.access_key;
        let task = submit::spec(spec.submission(), self.caller()?.clone(), access_key, |handler, _| {
            let kept = |step: &Step| step.template.handler == handler;
            let kept = known.is_some_and(|view| view.flow.steps.iter().any(kept));
            Ok(allow_unknown_handler || kept || self.has_handler(handler)?)
        })?;
        let needs = spec.depends_on.iter().filter_map(|need| {
            let step = places.get(need.step.as_str()).copied()?;
            Some(Need { step, on: on(need.on) })
        });
        Ok(Step {
            name: spec.name.clone(),
            template: template(task, None),
            on_shard_failure: on_shard_failure(spec.on_shard_failure),
            needs: needs.collect(),
        })
    }

    /// Puts a job: by the plain command where it says nothing beyond its definition, and no instant comes to nothing. Of a
    /// caller that the tables have by a command that looks whether they still do.
    pub(super) async fn propose_put(
        &self,
        put: PutJob,
        flow: JobFlow,
        missed: Option<Missed>,
    ) -> Result<Applied, Failure> {
        if !self.shared.directory.is_in_the_file(&put.job.caller) {
            let command = JobCommand::PutOfCaller(Box::new(PutOfCaller { put, flow, missed }));
            let applied = self.propose_job(command).await?;
            return match applied.reply {
                // Its key is gone with it, which is what the request would hear if it came now.
                Reply::Refused(Refusal::CallerNotFound) => {
                    Err(Failure::new(Code::InvalidSignature, "the access key or the signature is wrong"))
                }
                _ => Ok(applied),
            };
        }
        if let Some(missed) = missed {
            return self.propose_job(JobCommand::Edit(Box::new(EditJob { put, flow, missed }))).await;
        }
        if flow == JobFlow::default() {
            return self.propose_job(JobCommand::Put(Box::new(put))).await;
        }
        let command = GraphCommand::PutJob(Box::new(PutFlow { put, flow }));
        self.propose(Command::Graph(Box::new(command))).await
    }
}
