//! What can go wrong with an executor as a whole.

use std::io;
use std::path::{Path, PathBuf};

/// An option that cannot be used, with its name and value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("option `{field}`: {problem}")]
pub struct OptionsError {
    /// The option, in the words of the configuration file.
    pub field: String,
    /// What is wrong with its value.
    pub problem: String,
}

impl OptionsError {
    pub(crate) fn new(field: &str, problem: impl Into<String>) -> Self {
        OptionsError { field: field.to_owned(), problem: problem.into() }
    }
}

/// Why an executor did not start, or stopped.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An option cannot be used.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A file or folder could not be read or written.
    #[error("{action} {}: {cause}", path.display())]
    Disk {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The operating system's words.
        cause: String,
    },
    /// Another process uses the folder.
    #[error("another executor uses the folder {}", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// Stored bytes are not what was written. The executor does not guess what it may have forgotten.
    #[error("{} is damaged at byte {offset}: {problem}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        problem: String,
    },
    /// The listener could not be opened, or failed.
    #[error("listening on {address}: {cause}")]
    Listen {
        /// The configured address.
        address: String,
        /// The operating system's words.
        cause: String,
    },
    /// A newer process lives under the same executor id.
    #[error("superseded: a newer process lives under the executor id `{id}`")]
    Superseded {
        /// The shared id.
        id: String,
    },
    /// A handler name is registered twice.
    #[error("the handler `{name}` is registered twice")]
    HandlerTwice {
        /// The name.
        name: String,
    },
}

impl Error {
    pub(crate) fn disk(action: &'static str, path: &Path, cause: &io::Error) -> Self {
        Error::Disk { action, path: path.to_owned(), cause: cause.to_string() }
    }
}
