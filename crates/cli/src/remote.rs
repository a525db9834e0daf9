//! The commands that talk to a cluster through its API.

use std::env;
use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use orloj_client::{Client, Credentials, Error, Options};
use orloj_wire::problem::Code as ProblemCode;

use crate::exit::{Code, Failure};

pub mod access;
pub mod calendar;
pub mod cluster;
pub mod executor;
mod graph;
pub mod job;
pub mod output;
mod sealing;
pub mod task;

/// Whose keys sign a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal {
    /// A caller.
    Caller,
    /// An administrator.
    Admin,
    /// An administrator where one is given, else a caller.
    Either,
}

impl Principal {
    /// The environment variables with key and secret.
    fn variables(self) -> (&'static str, &'static str) {
        let admin = match self {
            Principal::Caller => false,
            Principal::Admin => true,
            Principal::Either => env::var_os("ORLOJ_ADMIN_KEY").is_some(),
        };
        if admin {
            ("ORLOJ_ADMIN_KEY", "ORLOJ_ADMIN_SECRET")
        } else {
            ("ORLOJ_ACCESS_KEY", "ORLOJ_SECRET_KEY")
        }
    }
}

/// How long a command goes on trying before it says that the cluster cannot be reached, unless
/// `ORLOJ_DEADLINE_MS` says otherwise.
const DEADLINE: Duration = Duration::from_secs(15);
/// How long one replica may take to answer before the next one is asked, beyond what the command waits for.
const TRY_TIMEOUT: Duration = Duration::from_secs(4);

/// A client for the cluster that the environment names.
///
/// # Errors
/// A variable that is missing or has a value that cannot be used.
pub fn connect(principal: Principal) -> Result<Client, Failure> {
    connect_to(addresses()?.iter().map(String::as_str), principal)
}

/// The addresses that the environment names, at least one replica's.
fn addresses() -> Result<Vec<String>, Failure> {
    let urls = variable("ORLOJ_URL").context("no cluster is named").map_err(Failure::usage)?;
    Ok(urls.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect())
}

/// A client for the replicas at these addresses; whatever else it needs, the environment says.
///
/// # Errors
/// As [`connect`].
fn connect_to<'a>(urls: impl Iterator<Item = &'a str>, principal: Principal) -> Result<Client, Failure> {
    let build = || -> anyhow::Result<Client> {
        let (key, secret) = principal.variables();
        let credentials = Credentials::new(variable(key)?, variable(secret)?)?;
        let mut options = Options { deadline: deadline()?, try_timeout: TRY_TIMEOUT, ..Options::default() };
        (options.ca_pem, options.identity_pem) = certificates()?;
        if env::var_os("ORLOJ_AUDIENCE").is_some() {
            options.audience = variable("ORLOJ_AUDIENCE")?;
        }
        Ok(Client::new(urls, credentials, options)?)
    };
    build().map_err(Failure::usage)
}

fn deadline() -> anyhow::Result<Duration> {
    match env::var("ORLOJ_DEADLINE_MS") {
        Ok(text) => {
            text.parse().map(Duration::from_millis).with_context(|| format!("ORLOJ_DEADLINE_MS={text:?}"))
        }
        Err(_) => Ok(DEADLINE),
    }
}

type Pem = Option<Vec<u8>>;

/// Whom to trust, and what to show, where the environment says so.
fn certificates() -> anyhow::Result<(Pem, Pem)> {
    let file = |name: &str| match env::var_os(name) {
        None => Ok(None),
        Some(path) => {
            let read = fs::read(&path).with_context(|| format!("{name}={}: cannot read it", path.display()));
            read.map(Some)
        }
    };
    let identity = match (file("ORLOJ_CERT")?, file("ORLOJ_KEY")?) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some([key, cert].join(&b"\n"[..])),
        _ => anyhow::bail!("ORLOJ_CERT and ORLOJ_KEY belong together"),
    };
    Ok((file("ORLOJ_CA")?, identity))
}

fn variable(name: &str) -> anyhow::Result<String> {
    match env::var(name) {
        Ok(value) if !value.trim().is_empty() => Ok(value),
        Ok(_) => anyhow::bail!("the environment variable {name} is empty"),
        Err(_) => anyhow::bail!("the environment variable {name} is not set"),
    }
}

/// The failure of a change, with what to do where nobody knows whether it was done.
fn unsure(then: String) -> impl FnOnce(Error) -> Failure {
    move |error| {
        let is_unknown = error.is_unknown();
        let failure = Failure::from(error);
        if !is_unknown {
            return failure;
        }
        let error = anyhow::anyhow!("{:#}\nIt is not known whether it was done: {then}", failure.error);
        Failure { error, ..failure }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Config { .. } => Code::Usage,
            Error::Transport { .. } | Error::Answer { .. } | Error::Unreachable(_) => Code::Unreachable,
            Error::NotFinished { .. } => Code::TimedOut,
            Error::Problem(problem) => match error.code() {
                Some(ProblemCode::NoLeader | ProblemCode::NotReady | ProblemCode::CommitUnknown) => {
                    Code::Unreachable
                }
                _ if problem.status == 404 => Code::NotFound,
                _ => Code::Refused,
            },
        };
        Failure { code, error: error.into() }
    }
}
