//! A log whose writer is a task: whoever has no threads loses nothing.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use super::*;
use crate::runner::{Job, Runner};

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs everything on the one thread of the test.
#[derive(Default)]
struct Tasks {
    ended: Arc<Notify>,
}

impl Runner for Tasks {
    fn write_log(&self, mut writer: LogWriter) -> io::Result<Option<JoinHandle<()>>> {
        let ended = self.ended.clone();
        tokio::spawn(async move {
            loop {
                let work = writer.next().await;
                let written = writer.write(work);
                if !writer.report(written) {
                    break;
                }
            }
            drop(writer);
            ended.notify_one();
        });
        Ok(None)
    }

    fn run(&self, job: Job) {
        job();
    }
}

#[tokio::test]
async fn a_writer_that_is_a_task_does_what_the_thread_does() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = Arc::new(Tasks::default());
    let environment = Environment { runner: tasks.clone(), ..environment() };
    // No tail, so that what is read comes from the disk, here and now.
    let mut log = LogStore::open(dir.path(), 0, &environment).unwrap();
    let work = async {
        let mut flushed = submit(&mut log, [entry(1, 0), entry(1, 1)]).await;
        assert!(flushed.try_recv().is_err(), "the writer has not had its turn");
        flushed.await.unwrap().unwrap();
        log.save_vote(&Vote::new(2, 1)).await.unwrap();
        append(&mut log, [entry(2, 2), entry(2, 3)]).await;
        log.truncate_after(Some(id(2, 2))).await.unwrap();
        assert_eq!(all(&log).await, [entry(1, 0), entry(1, 1), entry(2, 2)]);
        assert!(log.monitor().stats().cold_reads > 0);
        // In line when the log is dropped.
        log.purge(id(1, 0)).await.unwrap();
        drop(log);
        tasks.ended.notified().await;
    };
    tokio::time::timeout(PATIENCE, work).await.expect("the task is woken by every write, and by the end");
    let log = open(dir.path());
    assert_eq!(all(&log).await, [entry(1, 1), entry(2, 2)]);
    assert_eq!(log.reader().read_vote().await.unwrap(), Some(Vote::new(2, 1)));
}
