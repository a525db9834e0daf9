//! `orloj calendar …`

use std::process::ExitCode;

use anyhow::Context as _;
use orloj_wire::rest::job::Calendar;

use super::job::file;
use super::{Principal, connect, output};
use crate::args::CalendarCommand;
use crate::exit::{Failure, Outcome};

/// Runs one of the commands.
///
/// # Errors
/// What the cluster refused, or what the command line or the file got wrong.
pub async fn run(command: CalendarCommand, json: bool) -> Outcome {
    match command {
        CalendarCommand::Put { name, file, version } => {
            let read = || file::calendar(&file::value(&file)?).with_context(|| file.display().to_string());
            let spec = read().map_err(Failure::usage)?;
            show(&connect(Principal::Caller)?.put_calendar(&name, &spec, version).await?, json)?;
        }
        CalendarCommand::Get { name } => show(&connect(Principal::Caller)?.calendar(&name).await?, json)?,
        CalendarCommand::List => list(json).await?,
        CalendarCommand::Delete { name, version } => {
            let deleted = connect(Principal::Caller)?.delete_calendar(&name, version).await?;
            if json {
                output::json(&deleted)?;
            } else {
                output::line(&format!("{}: deleted", deleted.name))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(json: bool) -> Result<(), Failure> {
    let client = connect(Principal::Caller)?;
    let (mut calendars, mut token) = (Vec::new(), None::<String>);
    loop {
        let page = client.calendars(None, token.as_deref()).await?;
        calendars.extend(page.calendars);
        token = page.next_page_token;
        if token.is_none() {
            break;
        }
    }
    if json {
        return Ok(output::json(&calendars)?);
    }
    let mut table = output::table(["calendar", "version", "time zone", "updated"]);
    for calendar in &calendars {
        table.add_row([
            calendar.name.clone(),
            calendar.version.to_string(),
            calendar.calendar["timeZone"].as_str().unwrap_or("UTC").to_owned(),
            calendar.updated_at.to_string(),
        ]);
    }
    Ok(output::print(&table)?)
}

fn show(calendar: &Calendar, json: bool) -> std::io::Result<()> {
    if json {
        return output::json(calendar);
    }
    output::fields(&[
        ("calendar", Some(calendar.name.clone())),
        ("version", Some(calendar.version.to_string())),
        ("updated", Some(calendar.updated_at.to_string())),
        ("excludes", Some(calendar.calendar.to_string())),
    ])
}
