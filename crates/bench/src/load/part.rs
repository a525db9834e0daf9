//! The load as a process of its own: told what to do in lines, answers in lines.

use std::io::{self, BufRead, Write as _};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{Ack, Gate, Load};
use crate::caller::{CallError, Caller};
use crate::check::check;
use crate::listing::list;
use crate::message::{FromLoad, LoadSpec, ToLoad};

/// How often a load tells how far it is.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// Why a part ends before it is told to.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// A line that is not a message.
    #[error("a line that is not a message: {0}")]
    Message(#[from] serde_json::Error),
    /// Standard output is closed, or there is no thread to be had.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The cluster cannot be used.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A message came before the one that it needs.
    #[error("the first message must be `{0}`")]
    Order(&'static str),
    /// An executor does not start.
    #[error(transparent)]
    Executor(#[from] orloj_executor::Error),
}

/// Does what the lines of `input` say, until there are no more.
///
/// # Errors
/// A line that is not a message, a cluster that cannot be used.
pub async fn run(input: impl BufRead + Send + 'static) -> Result<(), PartError> {
    let gate = Arc::new(Gate::default());
    let mut orders = orders(input, Arc::clone(&gate))?;
    let mut caller = None;
    let mut acks: Vec<Ack> = Vec::new();
    while let Some(order) = orders.recv().await {
        match (order?, &caller) {
            (ToLoad::Connect(target), _) => {
                let new = Caller::new(&target)?;
                new.settle().await;
                caller = Some(new);
                say(&FromLoad::Connected)?;
            }
            (ToLoad::Run(spec), Some(caller)) => {
                acks.extend(submit(Arc::clone(caller), spec, Arc::clone(&gate)).await?);
            }
            (ToLoad::Check(spec), Some(caller)) => {
                say(&FromLoad::Checked(check(caller, &acks, spec).await?))?;
            }
            (ToLoad::ListJobs, Some(caller)) => say(&FromLoad::JobsListed(list(caller).await?))?,
            // The reader has taken it already.
            (ToLoad::Done(_), _) => {}
            (_, None) => return Err(PartError::Order("connect")),
        }
    }
    Ok(())
}

async fn submit(caller: Arc<Caller>, spec: LoadSpec, gate: Arc<Gate>) -> Result<Vec<Ack>, PartError> {
    let load = Load::new(caller, spec, gate);
    let told = {
        let load = Arc::clone(&load);
        async move {
            loop {
                tokio::time::sleep(TELL_EVERY).await;
                if let Err(error) = say(&FromLoad::Progress { acknowledged: load.acknowledged() }) {
                    return error;
                }
            }
        }
    };
    let (result, acks) = tokio::select! {
        done = load.submit_all() => done?,
        error = told => return Err(error.into()),
    };
    say(&FromLoad::Ran(result))?;
    Ok(acks)
}

/// The orders of the conductor. How much is done is taken at once, also while a load runs.
fn orders(
    input: impl BufRead + Send + 'static,
    gate: Arc<Gate>,
) -> io::Result<UnboundedReceiver<serde_json::Result<ToLoad>>> {
    lines(input, move |order| match order {
        ToLoad::Done(done) => {
            gate.set(*done);
            false
        }
        _ => true,
    })
}

/// The messages in the lines of `input`, as far as `wanted` wants them, read by a thread.
pub(crate) fn lines<T: DeserializeOwned + Send + 'static>(
    input: impl BufRead + Send + 'static,
    wanted: impl Fn(&T) -> bool + Send + 'static,
) -> io::Result<UnboundedReceiver<serde_json::Result<T>>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let read = move || {
        // A reader that fails is at its end, like one that was closed.
        for line in input.lines().map_while(Result::ok).filter(|line| !line.trim().is_empty()) {
            let message = serde_json::from_str::<T>(&line);
            let passed = message.as_ref().map_or(true, &wanted);
            if passed && sender.send(message).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("bench-orders".into()).spawn(read)?;
    Ok(receiver)
}

/// Says something to the conductor.
pub(crate) fn say(message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_done_is_taken_by_the_reader() {
        let gate = Arc::new(Gate::default());
        let mut orders = orders(&b"{\"done\":5}\n\nnonsense\n{\"done\":7}\n"[..], Arc::clone(&gate)).unwrap();
        assert!(orders.recv().await.unwrap().is_err(), "the line that is no message is told");
        assert!(orders.recv().await.is_none());
        assert_eq!(gate.done.load(std::sync::atomic::Ordering::Relaxed), 7);
    }

    #[tokio::test]
    async fn a_load_without_a_cluster_is_refused() {
        let order = serde_json::json!({"check": {"atMost": 1, "seed": 1, "patienceS": 0.0}}).to_string();
        let error = run(io::Cursor::new(order)).await.unwrap_err();
        assert!(error.to_string().contains("connect"), "{error}");
    }
}
