use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// As a dead harness leaves it: the lines are there, nobody holds the lock.
fn abandon(journal: Journal) -> PathBuf {
    let path = journal.path().to_path_buf();
    drop(journal);
    path
}

#[test]
fn a_step_is_in_the_file_before_it_is_done() {
    let folder = folder();
    let (run, journal) = Journal::fresh(folder.path()).unwrap();
    assert_eq!(journal.path(), folder.path().join(format!("{run}.journal")));
    let file = folder.path().join("image");
    journal.begin(Step::File { path: file.clone() }).unwrap();
    let text = std::fs::read_to_string(journal.path()).unwrap();
    assert_eq!(open_steps(&text).unwrap(), vec![(Ticket(1), Step::File { path: file })]);
}

#[test]
fn an_id_in_use_is_refused() {
    let folder = folder();
    let run: RunId = "00ff".parse().unwrap();
    let _running = Journal::create(folder.path(), &run).unwrap();
    let error = Journal::create(folder.path(), &run).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn a_running_harness_is_left_alone_and_a_dead_one_is_undone() {
    let folder = folder();
    let (_, journal) = Journal::fresh(folder.path()).unwrap();
    let file = folder.path().join("image");
    journal.begin(Step::File { path: file.clone() }).unwrap();
    std::fs::write(&file, "x").unwrap();
    assert_eq!(Journal::undo_leftovers(folder.path()).unwrap(), vec![]);
    assert!(file.exists());

    let path = abandon(journal);
    let leftovers = Journal::undo_leftovers(folder.path()).unwrap();
    assert_eq!(leftovers, vec![Leftover { path: path.clone(), steps: 1, problems: vec![] }]);
    assert!(!file.exists());
    assert!(!path.exists());
    assert_eq!(Journal::undo_leftovers(folder.path()).unwrap(), vec![]);
}

#[test]
fn what_was_never_done_or_is_undone_already_is_no_problem() {
    let folder = folder();
    let (run, journal) = Journal::fresh(folder.path()).unwrap();
    let nowhere = folder.path().join("nowhere");
    let gone = Pid { pid: u32::MAX / 4, start_ticks: 1 };
    for step in [
        Step::Netns { name: run.netns("none") },
        Step::Process(gone),
        Step::Stopped(gone),
        Step::Tracer(gone),
        Step::Frozen { mount: nowhere.clone() },
        Step::FrozenCgroup { path: nowhere.clone() },
        Step::Mount { path: nowhere.clone() },
        Step::Cgroup { path: nowhere.clone() },
        Step::File { path: nowhere.clone() },
        Step::Folder { path: nowhere.clone() },
    ] {
        journal.begin(step).unwrap();
    }
    assert_eq!(journal.undo_all(), Vec::<String>::new());
    assert!(!journal.path().exists());
}

#[test]
fn what_cannot_be_undone_is_said_and_kept_for_another_try() {
    let folder = folder();
    let (_, journal) = Journal::fresh(folder.path()).unwrap();
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("file"), "").unwrap();
    journal.begin(Step::Folder { path: full.clone() }).unwrap();
    let path = abandon(journal);
    assert_eq!(undo(&path).unwrap().unwrap().problems.len(), 1);
    std::fs::remove_file(full.join("file")).unwrap();
    let second = undo(&path).unwrap().unwrap();
    assert_eq!((second.steps, second.problems), (1, vec![]));
    assert!(!full.exists());
}

#[test]
fn a_torn_last_line_counts_for_nothing() {
    let folder = folder();
    let (_, journal) = Journal::fresh(folder.path()).unwrap();
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("file"), "").unwrap();
    journal.begin(Step::Folder { path: full.clone() }).unwrap();
    let path = abandon(journal);
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"begin\":{\"ticket\":2,\"wh");
    std::fs::write(&path, text).unwrap();
    // The first try fails and leaves the file with a closed torn line; the second reads over it.
    assert_eq!(undo(&path).unwrap().unwrap().steps, 1);
    std::fs::remove_file(full.join("file")).unwrap();
    assert_eq!(undo(&path).unwrap().unwrap().problems, Vec::<String>::new());
    assert!(!full.exists());
}

#[test]
fn processes_are_thawed_continued_and_killed_before_the_rest() {
    let pid = Pid { pid: 1, start_ticks: 0 };
    let path = PathBuf::from("x");
    let steps = [
        Step::Netns { name: "n".to_string() },
        Step::Loop { image: path.clone() },
        Step::Mount { path: path.clone() },
        Step::Process(pid),
        Step::Tracer(pid),
        Step::Stopped(pid),
        Step::Frozen { mount: path },
    ];
    let numbered = steps.iter().cloned().zip(1..).map(|(step, number)| (Ticket(number), step)).collect();
    let order: Vec<u64> = undo::ordered(numbered).into_iter().map(|(ticket, _)| ticket.0).collect();
    assert_eq!(order, vec![7, 6, 5, 4, 1, 3, 2]);
}

#[test]
fn a_stopped_process_is_continued_and_killed() {
    let folder = folder();
    let (_, journal) = Journal::fresh(folder.path()).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = Pid::of(child.id()).unwrap();
    journal.begin(Step::Process(pid)).unwrap();
    journal.begin(Step::Stopped(pid)).unwrap();
    pid.signal(rustix::process::Signal::STOP).unwrap();
    assert_eq!(journal.undo_all(), Vec::<String>::new());
    assert!(!pid.is_alive());
    child.wait().unwrap();
}
