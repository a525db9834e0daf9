//! `orloj executor list` and `orloj executor drain`

use std::process::ExitCode;

use super::{Principal, connect, output};
use crate::args::ExecutorCommand;
use crate::exit::Outcome;

/// Runs one of the commands.
///
/// # Errors
/// What the cluster refused, or what the command line got wrong.
pub async fn run(command: ExecutorCommand, json: bool) -> Outcome {
    match command {
        ExecutorCommand::List => list(json).await,
        ExecutorCommand::Drain { executor, undo } => {
            let drained = connect(Principal::Admin)?.drain(&executor, !undo).await?;
            if json {
                output::json(&drained)?;
            } else {
                let what = if drained.draining { "gets no more work" } else { "gets work again" };
                output::line(&format!("{} {what}", drained.executor_id))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn list(json: bool) -> Outcome {
    let list = connect(Principal::Either)?.executors().await?;
    if json {
        output::json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table([
        "executor",
        "state",
        "address",
        "slots",
        "free",
        "queued",
        "load %",
        "heartbeat",
        "handlers",
    ]);
    for executor in &list.executors {
        let text = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        table.add_row([
            executor.executor_id.clone(),
            executor.state.clone(),
            executor.address.clone(),
            executor.slots.to_string(),
            text(executor.free_slots),
            text(executor.queued),
            // Not how busy the processors are: the load of the last minute for each core, and so above 100 at times.
            executor.cpu_pct.map_or_else(|| "-".to_owned(), |load| format!("{load:.0}")),
            executor.last_heartbeat_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms ago")),
            executor.handlers.join(" "),
        ]);
    }
    output::print(&table)?;
    Ok(ExitCode::SUCCESS)
}
