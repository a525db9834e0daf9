//! A replica that says what a test wants it to, and the command line that asks it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::thread;

use orloj_wire::problem::{Code, FieldError, Problem};
use serde_json::{Value, json};

const SECRET: &str = "0123456789012345678901234567890123456789";

/// What a replica was asked.
pub struct Request {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub query: String,
    /// Null where there is none.
    pub body: Value,
}

/// What it answers; nothing at all breaks the connection.
pub type Answer = Option<(u16, Value)>;

/// A replica with these answers; its address.
pub fn replica(mut answer: impl FnMut(&Request) -> Answer + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Some(request) = read(&stream) else { continue };
            let Some((status, body)) = answer(&request) else { continue };
            let body = body.to_string();
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).ok()? };
    Some(Request { method: method.to_owned(), path: path.to_owned(), query: query.to_owned(), body })
}

/// A replica that takes connections and never answers.
pub fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut kept = Vec::new();
        kept.extend(listener.incoming().map_while(Result::ok));
    });
    url
}

/// A refusal.
pub fn refusal(code: Code, detail: &str, errors: Vec<FieldError>) -> Answer {
    Some((code.status(), json!(Problem::new(code, detail).with_errors(errors))))
}

/// What a command has come to.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// It ended with this code, and printed each of the parts.
    #[track_caller]
    pub fn is(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.out.contains(part), "{part:?} is not in {self:?}");
        }
        self
    }
}

/// Runs a command against these replicas; none means that the environment names no cluster.
pub fn orloj(urls: &[&str], arguments: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orloj"));
    command.args(arguments).env_clear().envs([("ORLOJ_ACCESS_KEY", "ak_A"), ("ORLOJ_SECRET_KEY", SECRET)]);
    if !urls.is_empty() {
        command.env("ORLOJ_URL", urls.join(",")).env("ORLOJ_DEADLINE_MS", "3000");
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: status.code(), out: text(stdout), err: text(stderr) }
}
