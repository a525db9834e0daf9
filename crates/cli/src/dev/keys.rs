//! The secrets of a demo cluster: made at the first start, kept in files that only their owner can read.

use std::fs;
use std::io::ErrorKind;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::plan::Layout;
use crate::secret::{new_key_id, new_secret, read_private, write_private};

/// Keys of the demo caller and the administrator, and the secrets of the cluster's own processes.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Keys {
    /// The demo caller's access key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// The administrator's key.
    pub admin_key: String,
    /// Its secret.
    pub admin_secret: String,
    /// What replicas sign with among each other.
    pub cluster_secret: String,
    /// What replicas and executors sign with among each other.
    pub executor_secret: String,
    /// Signs the demo caller's callbacks.
    #[serde(default = "new_webhook_secret")]
    pub webhook_secret: String,
    /// Seals what is made through the API.
    #[serde(default = "new_sealing_key")]
    pub sealing_key: String,
    /// What it sealed it with before: opens, and seals no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older_sealing_keys: Vec<String>,
}

fn new_sealing_key() -> String {
    new_secret("kek_")
}

/// A folder of an earlier version has none yet.
fn new_webhook_secret() -> String {
    crate::secret::new_webhook_secret()
}

impl Keys {
    /// The keys kept in the folder of `layout`, or new ones.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that others can read.
    pub fn load_or_make(layout: &Layout) -> anyhow::Result<Keys> {
        let path = layout.secret("keys.toml");
        match fs::metadata(&path) {
            Ok(_) => {
                let text = read_private(&path)?;
                let keys: Keys =
                    toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
                // What this version has added is kept too.
                write_private(&path, &toml::to_string_pretty(&keys)?)?;
                return Ok(keys);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
        let keys = Keys {
            access_key: new_key_id("ak_"),
            secret_key: new_secret("sk_"),
            admin_key: new_key_id("adk_"),
            admin_secret: new_secret("ads_"),
            cluster_secret: new_secret("cls_"),
            executor_secret: new_secret("exs_"),
            webhook_secret: new_webhook_secret(),
            sealing_key: new_sealing_key(),
            older_sealing_keys: Vec::new(),
        };
        write_private(&path, &toml::to_string_pretty(&keys)?)?;
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path()).unwrap();
        let first = Keys::load_or_make(&layout).unwrap();
        let second = Keys::load_or_make(&layout).unwrap();
        assert_eq!(first.secret_key, second.secret_key);
        assert!(first.access_key.starts_with("ak_") && first.admin_key.starts_with("adk_"));
        assert_ne!(first.cluster_secret, first.executor_secret);
    }
}
