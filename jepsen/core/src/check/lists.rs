//! A3: each page of a list is one consistent cut.
//!
//! A page says up to which log index the replica had applied. What it shows must be the table at that index,
//! rebuilt from everything else that answers told with an index. Fails when
//! - its index is below one that an answer had carried before the request began;
//! - a task stands on it at a version below one that was told of a lower index, or above one that was told of a
//!   higher index, or with another value than the same version had elsewhere;
//! - it shows a task twice, out of order (newest first), or in another status than the one asked for;
//! - a task is missing that had been acknowledged at its index, whose creation lies within the page's bounds and
//!   which is known to have had the status asked for.
//!
//! Whose tasks a list shows depends on its caller. Clients that have seen each other's tasks are one caller;
//! a task of a client that no list has shown proves nothing about lists of others.
//!
//! Unknown when no list was answered with an index.

mod expected;

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::acks::Acks;
use crate::event::{Event, TaskSeen, What};
use crate::history::{History, Operation};
use crate::verdict::Judgement;

/// A page that was answered with its index.
struct Page<'a> {
    begin: &'a Event,
    end: &'a Event,
    applied: u64,
    status: Option<&'a str>,
    tasks: &'a [TaskSeen],
    /// The page shows nothing created at or after this; none for the first page.
    below_ms: Option<i64>,
    /// It is the last page, so that it shows everything older.
    is_last: bool,
}

/// What an answer told of a task at an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Told<'a> {
    index: u64,
    /// A change's answer tells of the moment of the change; other changes of the same entry can follow. A
    /// read tells of the end of the entry.
    is_read: bool,
    version: u64,
    status: &'a str,
    /// The attempt and the mark of a cancel, where the answer tells them.
    rest: Option<(u32, bool)>,
    event: u64,
}

/// See the module.
pub fn check(history: &History, _: &Options) -> Vec<Judgement> {
    let mut judgement = Judgement::of("A3");
    let operations = history.operations();
    let pages = pages(&operations);
    let versions = versions(&operations);
    let acks = Acks::of(&operations, |_| true);
    for page in &pages {
        fresh_enough(page, &acks, &mut judgement);
        well_formed(page, &mut judgement);
    }
    for (task, told) in &versions {
        in_order(task, told, &mut judgement);
    }
    let compared = expected::check(&pages, &operations, &versions, &mut judgement);
    judgement.stat("pages", pages.len() as f64);
    judgement.stat("rows", pages.iter().map(|page| page.tasks.len()).sum::<usize>() as f64);
    judgement.stat("expected_rows", compared as f64);
    if pages.is_empty() {
        judgement.unknown("no list was answered with an index", &[]);
    }
    vec![judgement]
}

fn pages<'a>(operations: &[Operation<'a>]) -> Vec<Page<'a>> {
    // Where the previous page of each client's walk ended.
    let mut walks: BTreeMap<&str, (u32, Option<&str>, i64)> = BTreeMap::new();
    let mut pages = Vec::new();
    for operation in operations {
        let What::List(asked) = &operation.invoke.what else { continue };
        let walk = walks.remove(operation.invoke.src.as_str());
        let Some(end) = operation.ok() else { continue };
        let (What::List(list), Some(applied)) = (&end.what, end.meta.applied) else { continue };
        let Some(tasks) = &list.answer else { continue };
        let status = asked.status.as_deref();
        let last_ms = tasks.last().and_then(|task| task.created_at_ms);
        if let (true, Some(last_ms)) = (list.more, last_ms) {
            walks.insert(&end.src, (asked.page, status, last_ms));
        }
        let follows = |walk: &(u32, Option<&str>, i64)| walk.0 + 1 == asked.page && walk.1 == status;
        let below_ms = match walk.filter(follows) {
            _ if asked.page == 0 => None,
            Some((.., last_ms)) => Some(last_ms),
            None => Some(tasks.first().and_then(|task| task.created_at_ms).unwrap_or(i64::MIN)),
        };
        let is_last = !list.more;
        pages.push(Page { begin: operation.invoke, end, applied, status, tasks, below_ms, is_last });
    }
    pages
}

fn versions<'a>(operations: &[Operation<'a>]) -> BTreeMap<&'a str, Vec<Told<'a>>> {
    let mut versions: BTreeMap<&str, Vec<Told<'a>>> = BTreeMap::new();
    for operation in operations {
        let Some(end) = operation.ok() else { continue };
        let Some(index) = end.meta.applied else { continue };
        let mut tell = |seen: &'a TaskSeen, is_read: bool| {
            let rest = is_read.then_some((seen.attempt, seen.cancel_requested));
            let told =
                Told { index, is_read, version: seen.version, status: &seen.status, rest, event: end.i };
            versions.entry(&seen.task_id).or_default().push(told);
        };
        match &end.what {
            What::Submit(submit) => submit.answer.iter().for_each(|seen| tell(seen, false)),
            What::Cancel(cancel) => cancel.answer.iter().for_each(|seen| tell(seen, false)),
            What::Get(get) => get.answer.iter().for_each(|seen| tell(seen, true)),
            What::List(list) => list.answer.iter().flatten().for_each(|seen| tell(seen, true)),
            _ => {}
        }
    }
    for told in versions.values_mut() {
        told.sort_unstable();
    }
    versions
}

fn fresh_enough(page: &Page<'_>, acks: &Acks, judgement: &mut Judgement) {
    if let Some((index, event)) = acks.before(page.begin.mono_ns)
        && index > page.applied
    {
        let what = format!(
            "a list was read at index {}, but {index} had been answered before it began",
            page.applied
        );
        judgement.violated(what, None, &[event, page.begin.i, page.end.i]);
    }
}

fn well_formed(page: &Page<'_>, judgement: &mut Judgement) {
    let events = [page.begin.i, page.end.i];
    let mut shown = BTreeSet::new();
    let mut newest_ms = page.below_ms.unwrap_or(i64::MAX);
    for task in page.tasks {
        let id = task.task_id.as_str();
        if !shown.insert(id) {
            judgement.violated(format!("a page shows {id} twice"), Some(id), &events);
        }
        if let Some(status) = page.status
            && status != task.status
        {
            let what = format!("a list of {status} tasks shows {id}, which is {}", task.status);
            judgement.violated(what, Some(id), &events);
        }
        let created_ms = task.created_at_ms.unwrap_or(newest_ms);
        if created_ms > newest_ms {
            judgement.violated(format!("a page shows {id} after an older task"), Some(id), &events);
        }
        newest_ms = created_ms;
    }
}

/// The versions of one task rise with the log, and one version has one value. Sorted by index.
fn in_order(task: &str, told: &[Told<'_>], judgement: &mut Judgement) {
    let mut values: BTreeMap<u64, Told<'_>> = BTreeMap::new();
    let mut highest: Option<Told<'_>> = None;
    for one in told {
        if let Some(before) = highest
            && (before.version > one.version
                || (before.version < one.version && before.is_read && before.index == one.index))
        {
            let what = format!(
                "{task} was at version {} at index {} and at version {} at index {}",
                before.version, before.index, one.version, one.index
            );
            judgement.violated(what, Some(task), &[before.event, one.event]);
        }
        if highest.is_none_or(|before| before.version <= one.version) {
            highest = Some(*one);
        }
        let known = values.entry(one.version).or_insert(*one);
        let other_rest = known.rest.is_some() && one.rest.is_some() && known.rest != one.rest;
        if known.status != one.status || other_rest {
            let what = format!("version {} of {task} was told in two ways", one.version);
            judgement.violated(what, Some(task), &[known.event, one.event]);
        }
        known.rest = known.rest.or(one.rest);
    }
}
