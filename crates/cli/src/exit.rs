//! What the process answers to the shell. The numbers are part of the interface (README, "Commands").

use std::fmt;
use std::process::ExitCode;

/// Why a command ends with another code than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The task that was waited for ended otherwise than with SUCCESS, `job diff` found a difference, or in a `bench`
    /// something was lost, done twice, early or not done in time.
    TaskFailed = 1,
    /// A wrong command line, configuration file or environment. (Also clap's own code.)
    Usage = 2,
    /// No replica could be reached, none leads, or the answer was lost and it may have been done.
    Unreachable = 3,
    /// The server refused the request; of several jobs, one at least.
    Refused = 4,
    /// What the request names does not exist.
    NotFound = 5,
    /// The wait ended before the task did.
    TimedOut = 6,
    /// The program failed; the message says how.
    Internal = 70,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        ExitCode::from(code as u8)
    }
}

/// An error together with the code that the process ends with.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// What went wrong, for the user.
    pub error: anyhow::Error,
}

impl Failure {
    /// An error of the command line, a configuration file or the environment.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Failure { code: Code::Usage, error: error.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The alternate form joins the causes with colons.
        write!(f, "{:#}", self.error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure { code: Code::Internal, error }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure { code: Code::Internal, error: error.into() }
    }
}

/// What every command returns.
pub type Outcome = Result<ExitCode, Failure>;
