use clap::Parser as _;

use super::*;
use crate::args::{Cli, Command};

#[test]
fn params_come_from_the_line_or_a_file() {
    assert_eq!(params("{\"a\":1}").unwrap().0, serde_json::json!({"a": 1}));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.json");
    fs::write(&file, "[1]").unwrap();
    assert_eq!(params(&format!("@{}", file.display())).unwrap().0, serde_json::json!([1]));
    assert!(params("@no-such-file").unwrap_err().to_string().contains("no-such-file"));
    assert!(params("{\"a\":1,}").unwrap_err().to_string().contains("--params is not JSON"));
}

#[test]
fn labels_are_name_and_value() {
    let good = labels(&["os=linux".to_owned(), "q=a=b".to_owned()]).unwrap();
    assert_eq!(good["q"], "a=b");
    assert!(labels(&["os".to_owned()]).unwrap_err().to_string().contains("\"os\""));
    assert!(labels(&["a=1".to_owned(), "a=2".to_owned()]).unwrap_err().to_string().contains("twice"));
}

/// The submission of a command line.
fn submitted(line: &[&str]) -> anyhow::Result<Submit> {
    let line = ["orloj", "task", "submit"].iter().chain(line);
    match Cli::try_parse_from(line).unwrap().command {
        Command::Task(TaskCommand::Submit(args)) => submission(&args),
        _ => unreachable!("it is a submission"),
    }
}

#[test]
fn there_is_an_option_for_every_field_of_a_submission() {
    let line = "report --params {\"a\":1} --delay-ms 5 --priority 7 --timeout-ms 9 --expire-at 2030-01-01T00:00:00Z \
        --retries 1 --backoff-ms 1,2 --jitter-pct 50 --max-lost 4 --label os=linux --routing-key r --zone fra \
        --strategy least-loaded --business-key b --dedupe-key d --shards 3 --on-shard-failure cancel --after tsk_a \
        --callback-url https://h/cb --estimate-ms 8 --allow-unknown-handler";
    let words: Vec<&str> = line.split_whitespace().collect();
    // Taken apart, so that a new field is missed here.
    let Submit {
        handler,
        params,
        run_at,
        delay_ms,
        priority,
        timeout_ms,
        expire_at,
        retry,
        labels,
        routing_key,
        zone,
        strategy,
        business_key,
        dedupe_key,
        shard_total,
        on_shard_failure,
        depends_on,
        callback_url,
        estimated_duration_ms,
        allow_unknown_handler,
    } = submitted(&words).unwrap();
    assert_eq!((handler.as_str(), params.0), ("report", serde_json::json!({"a": 1})));
    assert_eq!((run_at, delay_ms, priority, timeout_ms), (None, Some(5), Some(7), Some(9)));
    assert_eq!(expire_at.unwrap().to_string(), "2030-01-01T00:00:00.000Z");
    let tries =
        Retry { max_retries: 1, backoff_ms: vec![BackoffMs(1), BackoffMs(2)], jitter_pct: 50, max_lost: 4 };
    assert_eq!(retry, Some(tries));
    assert_eq!((labels["os"].as_str(), strategy), ("linux", Some(Strategy::LeastLoaded)));
    let texts = [routing_key, zone, business_key, dedupe_key, callback_url];
    assert_eq!(texts.map(Option::unwrap), ["r", "fra", "b", "d", "https://h/cb"]);
    assert_eq!((shard_total, depends_on[0].task_id.as_str()), (Some(3), "tsk_a"));
    assert_eq!(on_shard_failure, Some(orloj_wire::rest::OnShardFailure::Cancel));
    assert_eq!((estimated_duration_ms, allow_unknown_handler), (Some(8), true));
    let at = submitted(&["report", "--run-at", "2030-01-01T00:00:00Z"]).unwrap();
    assert!(at.run_at.is_some());
}

#[test]
fn what_no_option_says_is_left_to_the_cluster() {
    assert_eq!(submitted(&["echo"]).unwrap(), Submit::new("echo", serde_json::json!({})));
    let lost = submitted(&["echo", "--max-lost", "0"]).unwrap().retry.unwrap();
    assert_eq!(lost, Retry { max_lost: 0, ..Retry::default() });
    let pinned = submitted(&["echo", "--pin", "e1"]).unwrap().strategy;
    assert_eq!(pinned, Some(Strategy::Pinned("e1".into())));
    assert_eq!(submitted(&["echo", "--broadcast"]).unwrap().strategy, Some(Strategy::Broadcast));
}
