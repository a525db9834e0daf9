//! `orloj key sealing`, `orloj key reseal`

use std::process::ExitCode;

use anyhow::anyhow;
use orloj_client::Client;
use orloj_wire::rest::Sealing;

use super::{Principal, connect_to, output};
use crate::exit::{Code, Failure, Outcome};

/// Shows how each replica stands to the sealed secrets.
///
/// # Errors
/// A replica that does not answer.
pub(super) async fn show(client: &Client, json: bool) -> Outcome {
    let replicas = replicas(client).await?;
    if json {
        let shown: Vec<_> = replicas
            .iter()
            .map(|(api, sealing)| serde_json::json!({ "api": api, "sealing": sealing }))
            .collect();
        output::json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table(["replica", "seals with", "opens too", "current", "older", "unreadable"]);
    for (api, sealing) in replicas {
        let (first, others) = sealing.keys.split_first().unzip();
        table.add_row([
            api,
            first.cloned().unwrap_or_default(),
            others.unwrap_or_default().join(" "),
            sealing.current.to_string(),
            sealing.older.to_string(),
            sealing.unreadable.to_string(),
        ]);
    }
    output::print(&table)?;
    Ok(ExitCode::SUCCESS)
}

/// Seals everything anew, once every replica has the key for it.
///
/// # Errors
/// A replica that does not answer or seals with another key; then nothing is changed.
pub(super) async fn renew(client: &Client, unchecked: bool, json: bool) -> Outcome {
    if !unchecked {
        agree(&replicas(client).await?)?;
    }
    let mut renewed = 0;
    let last = loop {
        let answer = client.renew_sealing().await?;
        renewed += answer.renewed;
        if answer.remaining == 0 || answer.renewed == 0 {
            break answer;
        }
    };
    if json {
        output::json(&orloj_wire::rest::Renewed { renewed, ..last })?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!("{renewed} secrets are sealed anew with the key {}", last.key))?;
    if last.unreadable > 0 {
        output::line(&format!(
            "{} can be opened with none of the keys and stay as they are",
            last.unreadable
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every member's own answer.
async fn replicas(client: &Client) -> Result<Vec<(String, Sealing)>, Failure> {
    let mut found = Vec::new();
    for member in client.cluster().await?.members {
        let replica = connect_to(std::iter::once(member.api.as_str()), Principal::Admin)?;
        let sealing = replica.sealing().await.map_err(|error| {
            let Failure { code, error } = Failure::from(error);
            Failure { code, error: error.context(format!("replica {} at {}", member.id, member.api)) }
        })?;
        found.push((member.api, sealing));
    }
    Ok(found)
}

/// Refuses where replicas seal with different keys: one that lacks the key could check no signature afterwards.
fn agree(replicas: &[(String, Sealing)]) -> Result<(), Failure> {
    let Some((api, first)) = replicas.first() else { return Ok(()) };
    let key = |sealing: &Sealing| sealing.keys.first().cloned().unwrap_or_else(|| "no key".to_owned());
    match replicas.iter().find(|(_, other)| key(other) != key(first)) {
        None => Ok(()),
        Some((other, sealing)) => Err(Failure {
            code: Code::Refused,
            error: anyhow!(
                "{api} seals with {} and {other} with {}: give every replica the same sealing-keys and start it \
                 again; nothing was changed",
                key(first),
                key(sealing)
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_seal_with_different_keys_are_named() {
        let replica = |api: &str, keys: &[&str]| {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            (api.to_owned(), Sealing { keys, current: 0, older: 0, unreadable: 0, applied_index: 0 })
        };
        assert!(agree(&[]).is_ok());
        assert!(agree(&[replica("a", &["new", "old"]), replica("b", &["new"])]).is_ok());
        for other in [&["old", "new"][..], &[]] {
            let error = agree(&[replica("a", &["new", "old"]), replica("b", other)]).unwrap_err().error;
            let text = error.to_string();
            assert!(text.contains("a seals with new") && text.contains("b with"), "{text}");
        }
    }
}
