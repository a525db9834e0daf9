//! `orloj key sealing`, `orloj key reseal`

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::anyhow;
use orloj_client::Client;
use orloj_wire::rest::{Member, Sealing};

use super::{Principal, addresses, connect_to, output};
use crate::exit::{Code, Failure, Outcome};

/// Shows how each replica stands to the sealed secrets.
///
/// # Errors
/// A replica that does not answer, or that none of the addresses leads to.
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

/// What a replica says, and at which address.
type Told = (String, Sealing);

/// Every member's own answer. Where administrators have a listener of their own, no member tells where that is: the
/// addresses of `ORLOJ_URL` are asked first, and then those members of which none of these is the listener.
async fn replicas(client: &Client) -> Result<Vec<Told>, Failure> {
    let members = client.cluster().await?.members;
    let mut told = BTreeMap::new();
    for url in addresses()? {
        // Who does not answer may be no member any more; a member that is missed is asked below.
        if let Ok(sealing) = ask(&url).await
            && let Some(replica) = sealing.replica
        {
            told.insert(replica, (url, sealing));
        }
    }
    for member in &members {
        if told.contains_key(&member.id) {
            continue;
        }
        let sealing = ask(&member.api).await.map_err(|Failure { code, error }| {
            let context = format!("replica {} at {}: {NAME_IT}", member.id, member.api);
            Failure { code, error: error.context(context) }
        })?;
        told.insert(sealing.replica.unwrap_or(member.id), (member.api.clone(), sealing));
    }
    of_each(&members, told)
}

/// How to have a replica asked that was not.
const NAME_IT: &str = "where its calls of administrators go to another address, name that in ORLOJ_URL";

async fn ask(url: &str) -> Result<Sealing, Failure> {
    let replica = connect_to(std::iter::once(url), Principal::Admin)?;
    Ok(replica.sealing().await?)
}

/// The members' answers, in their order. Behind one address may be another replica than the one that was meant, as behind
/// a load balancer: then somebody has not been asked.
fn of_each(members: &[Member], mut told: BTreeMap<u64, Told>) -> Result<Vec<Told>, Failure> {
    let answer = |member: &Member| {
        told.remove(&member.id).ok_or_else(|| Failure {
            code: Code::Refused,
            error: anyhow!("at {} another replica than {} has answered: {NAME_IT}", member.api, member.id),
        })
    };
    members.iter().map(answer).collect()
}

/// Refuses where replicas seal with different keys: one that lacks the key could check no signature afterwards.
fn agree(replicas: &[Told]) -> Result<(), Failure> {
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

    fn sealing(replica: u64, keys: &[&str]) -> Sealing {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Sealing { replica: Some(replica), keys, current: 0, older: 0, unreadable: 0, applied_index: 0 }
    }

    #[test]
    fn replicas_that_seal_with_different_keys_are_named() {
        let replica = |api: &str, keys: &[&str]| (api.to_owned(), sealing(1, keys));
        assert!(agree(&[]).is_ok());
        assert!(agree(&[replica("a", &["new", "old"]), replica("b", &["new"])]).is_ok());
        for other in [&["old", "new"][..], &[]] {
            let error = agree(&[replica("a", &["new", "old"]), replica("b", other)]).unwrap_err().error;
            let text = error.to_string();
            assert!(text.contains("a seals with new") && text.contains("b with"), "{text}");
        }
    }

    #[test]
    fn a_member_that_was_not_asked_is_named() {
        let member = |id: u64| Member {
            id,
            api: format!("http://h{id}:8080"),
            role: "follower".to_owned(),
            state: "ok".to_owned(),
            applied_index: None,
            digest: None,
            lag_entries: None,
        };
        let members = [member(3), member(1)];
        let told = |ids: &[u64]| {
            let told = ids.iter().map(|id| (*id, (format!("at {id}"), sealing(*id, &["key"]))));
            of_each(&members, told.collect())
        };
        let found = told(&[1, 2, 3]).unwrap();
        assert_eq!(found.iter().map(|(at, _)| at.as_str()).collect::<Vec<_>>(), ["at 3", "at 1"]);
        // A load balancer had the same one answer twice.
        let error = told(&[1, 2]).unwrap_err().error.to_string();
        assert!(error.contains("http://h3:8080") && error.contains("ORLOJ_URL"), "{error}");
    }
}
