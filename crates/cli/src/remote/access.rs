//! `orloj caller`, `orloj key`, `orloj audit`

use std::process::ExitCode;

use anyhow::Context as _;
use orloj_client::{AuditQuery, CallersQuery, Client};
use orloj_wire::callback::HostEntry;
use orloj_wire::problem::Code;
use orloj_wire::rest::{AccessKey, Caller, Callers, MAX_AUDIT_PAGE, NewKey, PutCaller};

use super::{Principal, connect, output, sealing, unsure};
use crate::args::access::{AuditArgs, CallerCommand, KeyCommand, PutCallerArgs};
use crate::exit::{Failure, Outcome};

/// Runs one of the commands on callers.
///
/// # Errors
/// What the cluster refused, or what the command line got wrong.
pub async fn caller(command: CallerCommand, json: bool) -> Outcome {
    let client = connect(Principal::Admin)?;
    match command {
        CallerCommand::List => list_callers(&client, json).await,
        CallerCommand::Get { caller } => {
            let found = client.caller(&caller).await?;
            if json {
                output::json(&found)?
            } else {
                show(&found)?
            }
            Ok(ExitCode::SUCCESS)
        }
        CallerCommand::Put(args) => put(&client, *args, json).await,
        CallerCommand::Delete { caller } => {
            let changed = client.delete_caller(&caller).await?;
            said(json, &changed, &format!("caller {caller} is gone"))
        }
        CallerCommand::AddSecret { caller } => {
            let made = client.add_webhook_secret(&caller).await?;
            said(json, &made, &format!("{} {}\nIt is shown this once.", made.id, made.secret))
        }
        CallerCommand::DeleteSecret { caller, secret } => {
            let changed = client.delete_webhook_secret(&caller, &secret).await?;
            said(json, &changed, &format!("{secret} signs no more"))
        }
    }
}

/// Runs one of the commands on keys.
///
/// # Errors
/// As [`caller`].
pub async fn key(command: KeyCommand, json: bool) -> Outcome {
    let client = connect(Principal::Admin)?;
    match command {
        KeyCommand::List { caller } => {
            let keys = match &caller {
                Some(caller) => client.caller(caller).await?.keys,
                None => client.admin_keys().await?.keys,
            };
            if json {
                output::json(&keys)?
            } else {
                output::print(&table_of(&keys))?
            }
            Ok(ExitCode::SUCCESS)
        }
        KeyCommand::Create { caller, admin: _, scopes, description } => {
            let wanted = NewKey { description, scopes };
            let made = match &caller {
                Some(caller) => client.add_key(caller, &wanted).await,
                None => client.add_admin_key(&wanted).await,
            };
            let look = "there may be a key that nobody has the secret of; the list of keys tells, and orloj key delete \
                        takes it away";
            let made = made.map_err(unsure(look.to_owned()))?;
            said(
                json,
                &made,
                &format!("{} {}\nThe secret is shown this once.", made.access_key, made.secret_key),
            )
        }
        KeyCommand::Disable { key } => set(&client, &key, false, json).await,
        KeyCommand::Enable { key } => set(&client, &key, true, json).await,
        KeyCommand::Delete { key } => {
            let changed = client.delete_key(&key).await?;
            said(json, &changed, &format!("{key} is gone"))
        }
        KeyCommand::Sealing => sealing::show(&client, json).await,
        KeyCommand::Reseal { unchecked } => sealing::renew(&client, unchecked, json).await,
    }
}

/// `orloj audit`
///
/// # Errors
/// As [`caller`].
pub async fn audit(args: AuditArgs, json: bool) -> Outcome {
    let client = connect(Principal::Admin)?;
    let mut records = Vec::new();
    let mut query = AuditQuery { denied: args.denied, ..AuditQuery::default() };
    while records.len() < args.limit {
        query.page_size = Some((args.limit - records.len()).min(MAX_AUDIT_PAGE));
        let page = client.audit(&query).await?;
        records.extend(page.records);
        match page.next_before {
            Some(before) => query.before = Some(before),
            None => break,
        }
    }
    if json {
        output::json(&records)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table(["at", "who", "what", "on", "detail", "from", "times"]);
    for record in records {
        table.add_row([
            record.at.to_string(),
            record.actor,
            record.action,
            record.target,
            record.detail,
            record.address,
            record.count.to_string(),
        ]);
    }
    output::print(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn said<T: serde::Serialize>(json: bool, answer: &T, text: &str) -> Outcome {
    if json {
        output::json(answer)?
    } else {
        output::line(text)?
    }
    Ok(ExitCode::SUCCESS)
}

async fn set(client: &Client, key: &str, enabled: bool, json: bool) -> Outcome {
    let changed = client.set_key(key, enabled).await?;
    said(json, &changed, &format!("{key} is {}", changed.state))
}

async fn list_callers(client: &Client, json: bool) -> Outcome {
    let (mut callers, mut query) = (Vec::new(), CallersQuery::default());
    loop {
        let page = client.callers(&query).await?;
        callers.extend(page.callers);
        query.page_token = page.next_page_token;
        if query.page_token.is_none() {
            break;
        }
    }
    if json {
        output::json(&Callers { callers, next_page_token: None })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table =
        output::table(["caller", "state", "keys", "scopes", "handlers", "callbacks", "description"]);
    for caller in &callers {
        let hosts: Vec<&str> = caller.callback_hosts.iter().map(|entry| entry.host.as_str()).collect();
        table.add_row([
            caller.caller_id.clone(),
            state(caller.enabled),
            caller.keys.iter().filter(|key| key.enabled).count().to_string(),
            caller.scopes.join(" "),
            caller.handlers.join(" "),
            hosts.join(" "),
            caller.description.clone(),
        ]);
    }
    output::print(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn state(enabled: bool) -> String {
    if enabled { "enabled" } else { "disabled" }.to_owned()
}

fn show(caller: &Caller) -> anyhow::Result<()> {
    let limits = &caller.limits;
    output::line(&format!(
        "{} is {}, version {}\nscopes: {}\nhandlers: {}\n\
         limits of each key: {} requests/s, {} submissions/s, {} waiting calls",
        caller.caller_id,
        state(caller.enabled),
        caller.version,
        caller.scopes.join(" "),
        caller.handlers.join(" "),
        limits.requests_per_s,
        limits.submits_per_s,
        limits.waiters,
    ))?;
    if let Some(most) = caller.max_running {
        output::line(&format!("tasks that run at a time: {most} at most"))?;
    }
    for entry in &caller.callback_hosts {
        output::line(&format!("callbacks: {} on {:?}", entry.host, entry.ports))?;
    }
    for secret in &caller.webhook_secrets {
        output::line(&format!("webhook secret: {} of {}", secret.id, secret.created_at))?;
    }
    output::print(&table_of(&caller.keys))?;
    Ok(())
}

fn table_of(keys: &[AccessKey]) -> comfy_table::Table {
    let mut table = output::table(["access key", "state", "made", "scopes", "description"]);
    for key in keys {
        table.add_row([
            key.access_key.clone(),
            state(key.enabled),
            key.created_at.to_string(),
            key.scopes.join(" "),
            key.description.clone(),
        ]);
    }
    table
}

/// Changes what is given, from what there is.
async fn put(client: &Client, args: PutCallerArgs, json: bool) -> Outcome {
    let known = match client.caller(&args.caller).await {
        Ok(known) => Some(known),
        Err(error) if error.code() == Some(Code::NotFound) => None,
        Err(error) => return Err(error.into()),
    };
    let caller = args.caller.clone();
    let settings = merged(known, args).map_err(Failure::usage)?;
    let changed = client.put_caller(&caller, &settings).await?;
    said(json, &changed, &format!("caller {caller} is at version {}", changed.version.unwrap_or_default()))
}

fn merged(known: Option<Caller>, args: PutCallerArgs) -> anyhow::Result<PutCaller> {
    let mut settings = match known {
        None => PutCaller { expected_version: Some(0), ..PutCaller::default() },
        Some(known) => PutCaller {
            expected_version: Some(known.version),
            enabled: known.enabled,
            description: known.description,
            scopes: known.scopes,
            handlers: known.handlers,
            callback_hosts: known.callback_hosts,
            limits: known.limits,
            max_running: known.max_running,
        },
    };
    settings.enabled = (settings.enabled || args.enable) && !args.disable;
    settings.description = args.description.unwrap_or(settings.description);
    settings.scopes = args.scopes.unwrap_or(settings.scopes);
    settings.handlers = match args.no_handlers {
        true => Vec::new(),
        false => args.handlers.unwrap_or(settings.handlers),
    };
    if args.no_callback_hosts || !args.callback_hosts.is_empty() {
        settings.callback_hosts =
            args.callback_hosts.iter().map(|text| host(text)).collect::<anyhow::Result<_>>()?;
    }
    let limits = &mut settings.limits;
    limits.requests_per_s = args.requests_per_s.unwrap_or(limits.requests_per_s);
    limits.requests_burst = args.requests_burst.unwrap_or(limits.requests_burst);
    limits.submits_per_s = args.submits_per_s.unwrap_or(limits.submits_per_s);
    limits.submits_burst = args.submits_burst.unwrap_or(limits.submits_burst);
    limits.waiters = args.waiters.unwrap_or(limits.waiters);
    settings.max_running = args.max_running.or(settings.max_running.filter(|_| !args.no_max_running));
    Ok(settings)
}

fn host(text: &str) -> anyhow::Result<HostEntry> {
    if text.starts_with('{') {
        return serde_json::from_str(text).with_context(|| format!("--callback-host {text:?}"));
    }
    Ok(HostEntry { host: text.to_owned(), ports: vec![443], plain_http: false, allow_cidrs: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> PutCallerArgs {
        PutCallerArgs {
            caller: "shop".into(),
            description: None,
            scopes: None,
            handlers: None,
            no_handlers: false,
            callback_hosts: Vec::new(),
            no_callback_hosts: false,
            requests_per_s: None,
            requests_burst: None,
            submits_per_s: None,
            submits_burst: None,
            waiters: None,
            max_running: None,
            no_max_running: false,
            disable: false,
            enable: false,
        }
    }

    /// As it is shown after that.
    fn caller_as(settings: &PutCaller) -> Caller {
        let mut shown = serde_json::to_value(settings).unwrap();
        for (field, value) in [
            ("callerId", serde_json::json!("shop")),
            ("version", serde_json::json!(1)),
            ("keys", serde_json::json!([])),
            ("webhookSecrets", serde_json::json!([])),
            ("description", serde_json::json!("")),
            ("createdAt", serde_json::json!("2027-01-15T08:00:00.000Z")),
            ("updatedAt", serde_json::json!("2027-01-15T08:00:00.000Z")),
        ] {
            shown[field] = value;
        }
        serde_json::from_value(shown).unwrap()
    }

    #[test]
    fn what_is_not_given_stays() {
        let first = PutCallerArgs {
            handlers: Some(vec!["echo".into()]),
            callback_hosts: vec![
                "a.b".into(),
                r#"{"host":"localhost","ports":[80],"plainHttp":true}"#.into(),
            ],
            ..args()
        };
        let made = merged(None, first).unwrap();
        assert_eq!((made.expected_version, made.handlers.len(), made.callback_hosts.len()), (Some(0), 1, 2));
        assert!(made.callback_hosts[1].plain_http && made.faults().is_empty());
        assert_eq!(made.max_running, None);
        let limited = caller_as(&merged(None, PutCallerArgs { max_running: Some(3), ..args() }).unwrap());
        assert_eq!(merged(Some(limited.clone()), args()).unwrap().max_running, Some(3));
        let lifted = PutCallerArgs { no_max_running: true, ..args() };
        assert_eq!(merged(Some(limited), lifted).unwrap().max_running, None);
        let waits = merged(Some(caller_as(&made)), PutCallerArgs { waiters: Some(50), ..args() }).unwrap();
        assert_eq!((waits.limits.waiters, waits.limits.submits_burst), (50, made.limits.submits_burst));
        assert_eq!((&waits.handlers, &waits.callback_hosts), (&made.handlers, &made.callback_hosts));
        let taken = PutCallerArgs { no_handlers: true, no_callback_hosts: true, ..args() };
        let taken = merged(Some(caller_as(&made)), taken).unwrap();
        assert!(taken.handlers.is_empty() && taken.callback_hosts.is_empty() && taken.faults().is_empty());
        let bad = PutCallerArgs { callback_hosts: vec!["{".into()], ..args() };
        assert!(merged(None, bad).is_err());
    }
}
