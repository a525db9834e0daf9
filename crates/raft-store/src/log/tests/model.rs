//! Random writes, reads and reopenings, against a model that keeps the log in a vector.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::engine::rocks;

/// What the log must hold.
#[derive(Default)]
struct Model {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    entries: Vec<Entry>,
    term: u64,
}

impl Model {
    fn first(&self) -> u64 {
        self.purged.map_or(0, |id| id.index + 1)
    }

    fn next(&self) -> u64 {
        self.first() + self.entries.len() as u64
    }

    fn last(&self) -> Option<LogId> {
        self.entries.last().map(|entry| entry.log_id).or(self.purged)
    }

    fn slice(&self, from: u64, to: u64) -> &[Entry] {
        let from = from.clamp(self.first(), self.next());
        let to = to.clamp(from, self.next());
        &self.entries[(from - self.first()) as usize..(to - self.first()) as usize]
    }

    fn id_at(&self, index: u64) -> Option<LogId> {
        self.slice(index, index + 1).first().map(|entry| entry.log_id)
    }
}

/// The log and the model side by side.
struct World<'a> {
    dir: &'a Path,
    random: StdRng,
    model: Model,
    log: Option<LogStore>,
    unflushed: Vec<FlushReport>,
}

impl World<'_> {
    fn open(&self) -> LogStore {
        // A tail of a few entries, so that most reads go to the disk.
        LogStore::open(self.dir, 1_500, &environment()).unwrap()
    }

    fn log(&mut self) -> &mut LogStore {
        self.log.as_mut().unwrap()
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..45 => self.append().await,
            45..55 => self.truncate().await,
            55..63 => self.purge().await,
            63..70 => self.vote().await,
            70..76 => self.commit().await,
            76..94 => self.read().await,
            94..97 => self.flush_tables(),
            _ => self.reopen().await,
        }
    }

    async fn append(&mut self) {
        let count = self.random.random_range(0..12);
        let next = self.model.next();
        let entries: Vec<Entry> = (next..next + count).map(|index| entry(self.model.term, index)).collect();
        self.model.entries.extend(entries.clone());
        let flushed = submit(self.log(), entries).await;
        self.unflushed.push(flushed);
    }

    async fn truncate(&mut self) {
        let floor = self.model.committed.map_or(0, |id| id.index + 1).max(self.model.first());
        let keep = self.random.random_range(floor.min(self.model.next())..=self.model.next());
        self.model.entries.truncate((keep - self.model.first()) as usize);
        // What replaces truncated entries is of a later leader.
        self.model.term += 1;
        let last = self.model.last();
        self.log().truncate_after(last).await.unwrap();
    }

    async fn purge(&mut self) {
        let beyond = self.random.random_range(0..10) == 0;
        let upto = if beyond {
            id(self.model.term, self.model.next() + self.random.random_range(0..5))
        } else {
            let index = self.random.random_range(self.model.first()..=self.model.next());
            let Some(id) = self.model.id_at(index) else { return };
            id
        };
        let first = self.model.first();
        let dropped = ((upto.index + 1 - first) as usize).min(self.model.entries.len());
        self.model.entries.drain(..dropped);
        self.model.purged = Some(upto);
        self.log().purge(upto).await.unwrap();
    }

    async fn vote(&mut self) {
        self.model.term += 1;
        let vote = match self.random.random() {
            true => Vote::new(self.model.term, 1),
            false => Vote::new_committed(self.model.term, 1),
        };
        self.model.vote = Some(vote);
        self.log().save_vote(&vote).await.unwrap();
    }

    async fn commit(&mut self) {
        let index = self.random.random_range(self.model.first()..=self.model.next());
        let committed = self.model.id_at(index);
        if committed <= self.model.committed {
            return;
        }
        self.model.committed = committed;
        self.log().save_committed(committed).await.unwrap();
    }

    async fn read(&mut self) {
        let from = self.random.random_range(0..=self.model.next());
        let to = from + self.random.random_range(0..30);
        let mut reader = self.log().reader();
        let read = reader.try_get_log_entries(from..to).await.unwrap();
        assert_eq!(read, self.model.slice(from, to), "{from}..{to}");
        let limited = reader.limited_get_log_entries(from, to).await.unwrap();
        if from >= self.model.first() {
            let expected = self.model.slice(from, to);
            assert!(
                expected.starts_with(&limited) && limited.is_empty() == expected.is_empty(),
                "{from}..{to}"
            );
        } else {
            assert!(limited.is_empty(), "{from} was purged");
        }
        self.check().await;
    }

    fn flush_tables(&mut self) {
        rocks::inner(self.log().disk.database()).flush().unwrap();
    }

    async fn reopen(&mut self) {
        drop(self.log.take());
        for flushed in self.unflushed.drain(..) {
            flushed.await.unwrap().unwrap();
        }
        self.log = Some(self.open());
        self.check().await;
        let everything = all(self.log.as_ref().unwrap()).await;
        assert_eq!(everything, self.model.entries);
    }

    async fn check(&mut self) {
        let log = self.log.as_mut().unwrap();
        let state = log.get_log_state().await.unwrap();
        assert_eq!((state.last_purged_log_id, state.last_log_id), (self.model.purged, self.model.last()));
        assert_eq!(log.reader().read_vote().await.unwrap(), self.model.vote);
        assert_eq!(log.read_committed().await.unwrap(), self.model.committed);
    }
}

#[tokio::test]
async fn random_histories_agree_with_the_model() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    for round in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let random = StdRng::seed_from_u64(seed.wrapping_add(round));
        let model = Model { term: 1, ..Model::default() };
        let mut world = World { dir: dir.path(), random, model, log: None, unflushed: Vec::new() };
        world.log = Some(world.open());
        for _ in 0..150 {
            world.step().await;
        }
        world.reopen().await;
    }
}
