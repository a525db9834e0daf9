//! Whom the command line signs for.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use orloj_wire::sign::{Label, Parts, Secret};

const SECRET: &str = "0123456789012345678901234567890123456789";

/// Takes one request and answers 404; returns the lines of its head.
fn one_request(listener: &TcpListener) -> Vec<String> {
    let (stream, _) = listener.accept().unwrap();
    let lines = BufReader::new(&stream).lines().map(Result::unwrap);
    let head = lines.take_while(|line| !line.is_empty()).collect();
    (&stream)
        .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        .unwrap();
    head
}

#[test]
fn calls_are_signed_for_the_audience_of_the_environment() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let command = Command::new(env!("CARGO_BIN_EXE_orloj"))
        .args(["cluster", "status"])
        .env_clear()
        .envs([("ORLOJ_URL", url.as_str()), ("ORLOJ_ACCESS_KEY", "ak_A"), ("ORLOJ_SECRET_KEY", SECRET)])
        .envs([("ORLOJ_AUDIENCE", "blue"), ("ORLOJ_DEADLINE_MS", "10000")])
        .stderr(Stdio::null())
        .spawn();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(one_request(&listener)));
    command.unwrap().wait().unwrap();
    let head = told.recv_timeout(Duration::from_secs(60)).expect("the command made a request");
    let header = |name: &str| {
        let value = head.iter().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        value.unwrap_or_else(|| panic!("{name} is missing: {head:?}"))
    };
    let parts = Parts {
        label: Label::Caller,
        audience: "blue",
        access_key: "ak_A",
        timestamp: header("x-timestamp"),
        nonce: header("x-nonce"),
        method: "GET",
        path: "/openapi/v1/cluster",
        query: "",
        idempotency_key: "",
        body: b"",
    };
    assert!(parts.verify(&Secret::new(SECRET).unwrap(), header("x-signature")), "{head:?}");
}
