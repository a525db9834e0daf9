//! Which tasks a page must show.
//!
//! A task is expected where it had certainly been there, and had certainly had the status asked for, at the
//! page's index. The pages are visited in the order of their indexes, with the tasks that are expected at each
//! kept by age: what is looked at for a page is about what the page shows.

use std::collections::{BTreeMap, BTreeSet};

use super::{Page, Told};
use crate::event::What;
use crate::history::Operation;
use crate::verdict::Judgement;

/// A task of which it is known who submitted it, when it was created, and at which index at the latest.
struct Submitted<'a> {
    task: &'a str,
    owner: &'a str,
    created_ms: i64,
    index: u64,
    event: u64,
}

/// Whose tasks of which status: what one list can show.
type Shelf<'a> = (&'a str, Option<&'a str>);

/// A task comes to a shelf, or leaves it after this index.
struct Move<'a> {
    index: u64,
    leaves: bool,
    shelf: Shelf<'a>,
    task: &'a Submitted<'a>,
}

/// Looks for tasks that a page should have shown; answers with how many were expected.
pub(super) fn check(
    pages: &[Page<'_>],
    operations: &[Operation<'_>],
    versions: &BTreeMap<&str, Vec<Told<'_>>>,
    judgement: &mut Judgement,
) -> u64 {
    let submitted = submitted(operations);
    let callers = Callers::of(pages, &submitted);
    let mut moves = moves(&submitted, versions, &callers);
    moves.sort_by_key(|one| (one.index, one.leaves));
    let mut moves = moves.into_iter().peekable();
    let mut pages: Vec<&Page<'_>> = pages.iter().collect();
    pages.sort_by_key(|page| page.applied);
    let mut shelves: BTreeMap<Shelf<'_>, BTreeMap<(i64, &str), &Submitted<'_>>> = BTreeMap::new();
    let mut expected = 0;
    for page in pages {
        let is_before =
            |one: &Move<'_>| one.index < page.applied || (one.index == page.applied && !one.leaves);
        while let Some(one) = moves.next_if(is_before) {
            let shelf = shelves.entry(one.shelf).or_default();
            let place = (one.task.created_ms, one.task.task);
            if one.leaves {
                shelf.remove(&place);
            } else {
                shelf.insert(place, one.task);
            }
        }
        if let Some(shelf) = shelves.get(&(callers.find(&page.end.src), page.status)) {
            expected += compare(page, shelf, judgement);
        }
    }
    expected
}

fn compare(page: &Page<'_>, shelf: &BTreeMap<(i64, &str), &Submitted<'_>>, judgement: &mut Judgement) -> u64 {
    let shown: BTreeSet<&str> = page.tasks.iter().map(|task| task.task_id.as_str()).collect();
    let oldest_ms = page.tasks.last().and_then(|task| task.created_at_ms);
    // Tasks of one instant are ordered by their ids: only what lies strictly within the bounds is certain.
    let from_ms = if page.is_last { i64::MIN } else { oldest_ms.map_or(i64::MAX, |ms| ms.saturating_add(1)) };
    let to_ms = page.below_ms.unwrap_or(i64::MAX);
    if from_ms >= to_ms {
        return 0;
    }
    let mut expected = 0;
    for (_, task) in shelf.range((from_ms, "")..(to_ms, "")) {
        expected += 1;
        if !shown.contains(task.task) {
            let what = format!("a list at index {} lacks {}", page.applied, task.task);
            judgement.violated(what, Some(task.task), &[task.event, page.begin.i, page.end.i]);
        }
    }
    expected
}

fn submitted<'a>(operations: &[Operation<'a>]) -> BTreeMap<&'a str, Submitted<'a>> {
    let mut submitted = BTreeMap::new();
    for operation in operations {
        let Some(end) = operation.ok() else { continue };
        let (What::Submit(submit), Some(index)) = (&end.what, end.meta.applied) else { continue };
        let Some(seen) = &submit.answer else { continue };
        let Some(created_ms) = seen.created_at_ms else { continue };
        let (task, owner, event) = (seen.task_id.as_str(), end.src.as_str(), end.i);
        submitted.entry(task).or_insert(Submitted { task, owner, created_ms, index, event });
    }
    submitted
}

fn moves<'a>(
    submitted: &'a BTreeMap<&'a str, Submitted<'a>>,
    versions: &BTreeMap<&'a str, Vec<Told<'a>>>,
    callers: &Callers<'a>,
) -> Vec<Move<'a>> {
    let mut moves = Vec::new();
    for (name, task) in submitted {
        let caller = callers.find(task.owner);
        moves.push(Move { index: task.index, leaves: false, shelf: (caller, None), task });
        for (status, from, to) in certain(versions.get(name).map_or(&[], Vec::as_slice)) {
            let shelf = (caller, Some(status));
            moves.push(Move { index: from, leaves: false, shelf, task });
            moves.extend(to.map(|index| Move { index, leaves: true, shelf, task }));
        }
    }
    moves
}

/// From which index to which a task certainly had a status, of what was told of it in the order of indexes: as
/// long as its version was the same, or for ever once it had ended.
fn certain<'a>(told: &[Told<'a>]) -> Vec<(&'a str, u64, Option<u64>)> {
    let mut spans = Vec::new();
    for run in told.chunk_by(|one, next| one.version == next.version) {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        if !matches!(first.status, "PENDING" | "RUNNING") {
            spans.push((first.status, first.index, None));
            break;
        }
        // A change's answer alone says nothing of what else happened in the same entry.
        if run.len() > 1 || first.is_read {
            spans.push((first.status, first.index, Some(last.index)));
        }
    }
    spans
}

/// Which clients are one caller: those whose lists have shown each other's tasks.
struct Callers<'a> {
    group: BTreeMap<&'a str, &'a str>,
}

impl<'a> Callers<'a> {
    fn of(pages: &[Page<'a>], submitted: &BTreeMap<&'a str, Submitted<'a>>) -> Callers<'a> {
        let mut callers = Callers { group: BTreeMap::new() };
        for page in pages {
            for owner in page.tasks.iter().filter_map(|task| submitted.get(task.task_id.as_str())) {
                callers.unite(&page.end.src, owner.owner);
            }
        }
        callers
    }

    fn find<'b>(&self, client: &'b str) -> &'b str
    where
        'a: 'b,
    {
        let mut at = client;
        while let Some(next) = self.group.get(at) {
            at = next;
        }
        at
    }

    fn unite(&mut self, one: &'a str, other: &'a str) {
        let (one, other) = (self.find(one), self.find(other));
        if one != other {
            self.group.insert(one, other);
        }
    }
}
