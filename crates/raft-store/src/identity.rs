//! Who a data directory belongs to: written and synced before there is any database beside it.
//!
//! The *birth token* is drawn when the directory is made. Members are known by id and birth, so a directory
//! that was emptied is somebody else, whatever id its configuration gives it: it never votes under the old
//! id and comes back under a new one.

use std::path::{Path, PathBuf};

use orloj_model::Random;
use orloj_model::id::NodeId;
use serde::{Deserialize, Serialize};

use crate::codec::{self, Schema};
use crate::error::Fault;
use crate::failure::OpenError;
use crate::files;

const FILE: &str = "identity";
/// Bytes of randomness in a birth token.
const BIRTH_BYTES: usize = 16;

/// Which databases a directory has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data {
    /// The log.
    pub log: bool,
    /// The tables.
    pub state: bool,
}

/// What the identity file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The cluster that the data belongs to.
    pub cluster: String,
    /// Drawn when the directory was made.
    pub birth: String,
    /// The id; `None` until the cluster has been found.
    pub id: Option<NodeId>,
    /// Whether the node has had a vote. One that has, and is no member any more, was removed.
    pub entered: bool,
}

impl Identity {
    /// Reads the identity of a directory, or gives it one when it is empty.
    ///
    /// # Errors
    /// IO, damage, another cluster, or data without an identity.
    pub fn open(dir: &Path, cluster: &str, data: Data, random: &dyn Random) -> Result<Identity, OpenError> {
        let refuse = |problem: String| Err(OpenError::Identity { dir: dir.display().to_string(), problem });
        match Self::read(dir)? {
            None if data.log || data.state => refuse("the file is missing though there is data".into()),
            None => {
                let identity = Identity::new(cluster.to_owned(), new_birth(random));
                identity.write(dir)?;
                Ok(identity)
            }
            Some(identity) if identity.cluster != cluster => {
                refuse(format!("it belongs to cluster {:?}, not to {cluster:?}", identity.cluster))
            }
            Some(identity) if identity.id.is_some() && !(data.log && data.state) => {
                let advice = "empty the directory to join as a new member";
                refuse(format!("the data is missing though there is an id: {advice}"))
            }
            Some(identity) => Ok(identity),
        }
    }

    fn new(cluster: String, birth: String) -> Self {
        Identity { cluster, birth, id: None, entered: false }
    }

    fn read(dir: &Path) -> Result<Option<Identity>, Fault> {
        let path = file(dir);
        let bytes = files::read_if_there(&path)?;
        bytes
            .map(|bytes| codec::decode(Schema::Identity, &bytes))
            .transpose()
            .map_err(Fault::codec(format!("the identity file {}", path.display())))
    }

    /// Writes the identity, durably.
    ///
    /// # Errors
    /// IO.
    pub fn write(&self, dir: &Path) -> Result<(), Fault> {
        let bytes =
            codec::encode(Schema::Identity, self).map_err(Fault::codec("the identity to be written"))?;
        files::replace(&file(dir), &bytes)
    }
}

fn file(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

fn new_birth(random: &dyn Random) -> String {
    let mut bytes = [0; BIRTH_BYTES];
    random.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use orloj_model::random::SeededRandom;

    use super::*;

    const NONE: Data = Data { log: false, state: false };
    const BOTH: Data = Data { log: true, state: true };

    fn open(dir: &Path, cluster: &str, data: Data) -> Result<Identity, OpenError> {
        // Drawn from the directory's name, so that no two are born alike.
        let seed = crc32fast::hash(dir.as_os_str().as_encoded_bytes());
        Identity::open(dir, cluster, data, &SeededRandom::new(seed.into()))
    }

    fn refusal(result: Result<Identity, OpenError>) -> String {
        match result {
            Err(OpenError::Identity { problem, .. }) => problem,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn an_identity_is_drawn_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = open(dir.path(), "blue", NONE).unwrap();
        assert_eq!(first.birth.len(), 2 * BIRTH_BYTES);
        assert_eq!(open(dir.path(), "blue", NONE).unwrap(), first);
        first.id = Some(7);
        first.write(dir.path()).unwrap();
        assert_eq!(open(dir.path(), "blue", BOTH).unwrap(), first);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(open(other.path(), "blue", NONE).unwrap().birth, first.birth);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(refusal(open(dir.path(), "blue", BOTH)).contains("missing"));
        let mut identity = open(dir.path(), "blue", NONE).unwrap();
        assert!(refusal(open(dir.path(), "red", NONE)).contains("red"));
        identity.id = Some(1);
        identity.write(dir.path()).unwrap();
        for data in [NONE, Data { log: true, state: false }, Data { log: false, state: true }] {
            assert!(refusal(open(dir.path(), "blue", data)).contains("data is missing"));
        }
    }

    #[test]
    fn a_damaged_identity_is_no_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), "blue", NONE).unwrap();
        let path = file(dir.path());
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(open(dir.path(), "blue", NONE), Err(OpenError::Storage(_))));
    }
}
