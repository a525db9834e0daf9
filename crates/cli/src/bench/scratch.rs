//! A folder for the files of one run.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;

use crate::secret::new_key_id;

/// How often it is tried to remove the folder of a run that was broken off, and the pause between two tries.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// A private folder, which is removed with everything in it when it is dropped, unless it is to be kept: a run that is
/// broken off leaves no data behind.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// A new folder in `parent`, of a name that nothing else has.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(parent: &Path, keep: bool) -> anyhow::Result<Scratch> {
        let path = parent.join(new_key_id("orloj-bench-"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        Ok(Scratch { path, keep })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps it, whatever happens.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Removes it, unless it is to be kept.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(mut self) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.keep, true) {
            return Ok(());
        }
        fs::remove_dir_all(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // A process that was killed just now may still make a file. What else went wrong matters more than what stays.
        for _ in 0..TRIES {
            match fs::remove_dir_all(&self.path) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => sleep(PAUSE),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_when_it_is_dropped_and_stays_when_it_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let (dropped, removed) =
            (Scratch::new(parent.path(), false).unwrap(), Scratch::new(parent.path(), false).unwrap());
        let mut kept = Scratch::new(parent.path(), false).unwrap();
        let paths = [dropped.path().to_owned(), removed.path().to_owned(), kept.path().to_owned()];
        paths.iter().for_each(|path| fs::write(path.join("file"), "data").unwrap());
        kept.keep();
        drop(dropped);
        drop(kept);
        removed.remove().unwrap();
        assert_eq!(paths.map(|path| path.exists()), [false, false, true]);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "data").unwrap();
        let told = Scratch::new(&file, false).unwrap_err().to_string();
        assert!(told.contains(&file.display().to_string()), "{told}");
    }
}
