//! What can go wrong in the node's own storage. Every one of these stops the node: a storage that has failed
//! once is not trusted again, and damage is never taken for absence.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::codec::CodecError;
use crate::engine::EngineError;

/// A fault of the storage.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A file or directory could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// The storage engine reported a fault: of the disk, or damage that its checksums found.
    #[error("cannot {action} the database {}: {source}", path.display())]
    Database {
        /// What was tried, as a verb.
        action: &'static str,
        /// The directory of the database.
        path: PathBuf,
        /// The engine's words.
        source: EngineError,
    },
    /// A value on disk is not what was written.
    #[error("{what} is damaged: {source}")]
    Codec {
        /// Which value.
        what: String,
        /// What is wrong with it.
        source: CodecError,
    },
    /// Values on disk contradict each other.
    #[error("the storage is damaged: {0}")]
    Damaged(String),
    /// The log or the vote is behind what this node had synced, so acknowledged entries or a vote were lost.
    #[error(
        "{what} on disk is {found}, but {guarded} had been synced: the log in {} has lost writes that other \
         members rely on. This node must not vote again: remove it from the cluster, empty its data directory \
         and let it join as a new member",
        path.display()
    )]
    BelowGuard {
        /// The log's directory.
        path: PathBuf,
        /// What is behind: the vote or the end of the log.
        what: &'static str,
        /// What the database holds.
        found: String,
        /// What the guard file says had been synced.
        guarded: String,
    },
    /// The guard file is missing or unreadable while the log has content, so nobody can tell what was lost.
    #[error(
        "the guard file {} is {state}, though a log lies beside it: the data directory is not whole. Restore \
         it, or remove this node from the cluster, empty its data directory and let it join as a new member",
        path.display()
    )]
    NoGuard {
        /// The guard file.
        path: PathBuf,
        /// How it is unusable.
        state: &'static str,
    },
    /// A write was asked for that would break the log: the caller's fault, refused without effect.
    #[error("refused a write to the log: {0}")]
    Misuse(String),
    /// What was applied could not be written to the tables, which nobody reads any more.
    #[error("the tables have stopped after a fault: {0}")]
    Unwritten(Arc<str>),
    /// The log failed before and takes no more writes.
    #[error("the log has stopped after a fault: {0}")]
    Stopped(Arc<str>),
}

impl Fault {
    /// Wraps the error of a file operation.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Fault {
        let path = path.to_path_buf();
        move |source| Fault::Io { action, path, source }
    }

    /// Wraps the error of a database operation.
    pub(crate) fn database(action: &'static str, path: &Path) -> impl FnOnce(EngineError) -> Fault {
        let path = path.to_path_buf();
        move |source| Fault::Database { action, path, source }
    }

    /// Wraps the error of decoding a value from the disk.
    pub(crate) fn codec(what: impl Into<String>) -> impl FnOnce(CodecError) -> Fault {
        let what = what.into();
        move |source| Fault::Codec { what, source }
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        io::Error::other(fault)
    }
}
