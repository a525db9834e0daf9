//! What can be wrong with certificates and keys.

use std::path::PathBuf;

/// Why a certificate, a key or an authority cannot be used. No message shows a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("{}: cannot read it: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// The file does not hold what it should.
    #[error("{}: {why}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The certificate is good, and names somebody else.
    #[error("{}: the certificate does not name {wanted}; it names {names}", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// Whom it should name.
        wanted: String,
        /// Whom it names.
        names: String,
    },
}
