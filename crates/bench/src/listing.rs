//! Reads the list of a caller's jobs, page after page, as a screen or a script does.

use std::collections::BTreeMap;

use bytes::Bytes;
use orloj_wire::clock::Clock as _;
use orloj_wire::rest::MAX_PAGE;
use serde::Deserialize;

use crate::caller::{Call, CallError, Caller};
use crate::message::JobList;

/// A job as the API tells it, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    job_id: &'a str,
    #[serde(borrow)]
    state: State<'a>,
}

#[derive(Debug, Deserialize)]
struct State<'a> {
    #[serde(borrow)]
    counts: Counts<'a>,
}

#[derive(Debug, Deserialize)]
struct Counts<'a> {
    fired: u64,
    #[serde(borrow)]
    skipped: BTreeMap<&'a str, u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    jobs: Vec<Item<'a>>,
    next_page_token: Option<&'a str>,
}

/// Reads the whole list in pages of the largest size, one after the other. Nothing is repeated: a page that fails is
/// an error.
///
/// # Errors
/// The API does not answer, or refuses.
pub(crate) async fn list(caller: &Caller) -> Result<JobList, CallError> {
    let clock = caller.clock();
    let (begin, mut list) = (clock.monotonic(), JobList::default());
    let (mut token, mut last) = (String::new(), String::new());
    loop {
        let query = match token.as_str() {
            "" => format!("page_size={MAX_PAGE}"),
            token => format!("page_size={MAX_PAGE}&page_token={token}"),
        };
        let call = Call { method: "GET", path: "/openapi/v1/jobs", query: &query, key: None, signer: 0 };
        let before = clock.monotonic();
        let answer = caller.call(call, Bytes::new()).await?;
        list.page.record(u64::try_from((clock.monotonic() - before).as_micros()).unwrap_or(u64::MAX));
        let page: Page<'_> =
            serde_json::from_slice(&answer).map_err(|error| CallError::Answer(error.to_string()))?;
        page.jobs.iter().for_each(|item| count(&mut list, &mut last, item));
        let Some(next) = page.next_page_token else { break };
        next.clone_into(&mut token);
    }
    list.took_us = u64::try_from((clock.monotonic() - begin).as_micros()).unwrap_or(u64::MAX);
    Ok(list)
}

/// Counts one job; `last` is the id of the one before it.
fn count(list: &mut JobList, last: &mut String, item: &Item<'_>) {
    // The list is in the order of the ids, so one that does not follow comes a second time or in its wrong place.
    list.disorder += u64::from(item.job_id <= last.as_str());
    item.job_id.clone_into(last);
    list.jobs += 1;
    list.fired += item.state.counts.fired;
    list.skipped += item.state.counts.skipped.values().sum::<u64>();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_counted_and_what_comes_twice_is_noticed() {
        let item = |id: &str| {
            format!(
                r#"{{"jobId":"{id}","version":1,"state":{{"openTasks":0,"counts":{{"fired":2,"missed":1,"skipped":{{"misfire":1,"overlap":3}}}}}}}}"#
            )
        };
        let text = format!(r#"{{"jobs":[{},{},{}],"appliedIndex":3}}"#, item("a"), item("b"), item("b"));
        let page: Page<'_> = serde_json::from_str(&text).unwrap();
        let (mut list, mut last) = (JobList::default(), String::new());
        page.jobs.iter().for_each(|item| count(&mut list, &mut last, item));
        assert_eq!((list.jobs, list.disorder, list.fired, list.skipped), (3, 1, 6, 12));
        assert_eq!(page.next_page_token, None);
    }
}
