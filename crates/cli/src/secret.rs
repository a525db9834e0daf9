//! Secrets: made from the operating system's random numbers, kept in files that only their owner can read.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A public key id: `prefix` and 20 characters of base32 (100 random bits).
pub fn new_key_id(prefix: &str) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let random: [u8; 20] = random();
    let text = random.iter().map(|byte| ALPHABET[usize::from(byte & 31)] as char);
    prefix.chars().chain(text).collect()
}

/// A secret: `prefix` and 43 characters of base64url (32 random bytes).
pub fn new_secret(prefix: &str) -> String {
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random::<32>()))
}

/// A secret that signs callbacks: `whsec_` and base64 of 32 random bytes.
pub fn new_webhook_secret() -> String {
    orloj_wire::callback::WebhookSecret::of(random()).expose()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system supplies random numbers");
    bytes
}

/// Reads a file of secrets; one that others can read is refused. Of a link the file counts that it leads to.
pub fn read_private(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let mut file = fs::File::open(path).with_context(|| format!("cannot open the secrets file {shown}"))?;
    let mode = file.metadata().with_context(|| format!("cannot stat {shown}"))?.mode() & 0o777;
    if mode & 0o077 != 0 {
        bail!("the secrets file {shown} has mode {mode:04o}: others may read it; run chmod 600 {shown}");
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(|| format!("cannot read {shown}"))?;
    Ok(text)
}

/// Writes `text` to `path` whole or not at all, readable by its owner alone, and synced.
pub fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    write_whole(path, text, 0o600).with_context(|| format!("cannot write {}", path.display()))
}

/// The same for a file that anybody may read.
pub fn write_public(path: &Path, text: &str) -> anyhow::Result<()> {
    write_whole(path, text, 0o644).with_context(|| format!("cannot write {}", path.display()))
}

fn write_whole(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
    let beside = dir.join(format!(".{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
    // A leftover of an earlier try keeps its mode when it is opened again.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_form_and_differ() {
        let id = new_key_id("ak_");
        assert_eq!(id.len(), 23);
        assert!(
            id[3..].bytes().all(|byte| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte)),
            "{id}"
        );
        let secret = new_secret("sk_");
        assert_eq!(secret.len(), 46);
        assert_ne!(secret, new_secret("sk_"));
        assert_ne!(id, new_key_id("ak_"));
    }

    #[test]
    fn a_secrets_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secrets.toml");
        write_private(&path, "a = 1").unwrap();
        assert_eq!(read_private(&path).unwrap(), "a = 1");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = read_private(&path).unwrap_err().to_string();
        assert!(error.contains("0640") && error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_file_written_twice_is_private_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        write_public(&path, "a longer first text").unwrap();
        write_private(&path, "short").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
