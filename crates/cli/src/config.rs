//! Configuration files: TOML in kebab-case, in which an unknown key is an error.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde::de::DeserializeOwned;

use crate::exit::Failure;

/// Reads a configuration file.
///
/// # Errors
/// The file cannot be read, or has a key or a value that it should not have; the message shows the line.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let read = || -> anyhow::Result<T> {
        let text = fs::read_to_string(path).context("cannot read it")?;
        parse(&text)
    };
    read().with_context(|| named(path)).map_err(Failure::usage)
}

/// How errors name a configuration file.
pub fn named(path: &Path) -> String {
    format!("configuration file {}", path.display())
}

fn parse<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    toml::from_str(text).map_err(|error| {
        let (number, line) = line_of(text, error.span());
        // The error of the parser shows the line with its key and value, which a secret must not be part of.
        match line.contains("secret") {
            true => anyhow!("{} (line {number})", error.message()),
            false => error.into(),
        }
    })
}

/// The number, from 1, and the text of the line where `span` begins.
pub fn line_of(text: &str, span: Option<Range<usize>>) -> (usize, &str) {
    let at = span.map_or(0, |span| span.start.min(text.len()));
    let number = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    (number, text.lines().nth(number - 1).unwrap_or_default())
}

/// Refuses an address that others than this machine can reach, unless that was asked for.
///
/// # Errors
/// The address, with the option that names it.
pub fn check_plaintext(option: &str, address: &str, insecure_plaintext: bool) -> anyhow::Result<()> {
    if insecure_plaintext || is_loopback(address) {
        return Ok(());
    }
    bail!(
        "{option} = {address:?} is not on loopback and the traffic is not encrypted: give it certificates in [tls] \
         (orloj cert makes them), listen on loopback behind something that ends TLS, or accept it with \
         --insecure-plaintext"
    )
}

/// Refuses an address that others than this machine can reach.
///
/// # Errors
/// The address, with the option that names it.
pub fn check_loopback(option: &str, address: &str) -> anyhow::Result<()> {
    if is_loopback(address) {
        return Ok(());
    }
    bail!("{option} = {address:?}: must be on loopback, since nothing is signed there")
}

fn is_loopback(address: &str) -> bool {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    #[allow(dead_code, reason = "only read by the derived Debug")]
    struct Sample {
        wait_ms: u32,
    }

    fn error_of(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        fs::write(&path, text).unwrap();
        load::<Sample>(&path).unwrap_err().to_string()
    }

    #[test]
    fn an_error_shows_file_key_and_value() {
        let wrong = error_of("wait-ms = \"soon\"\n");
        assert!(wrong.contains("c.toml") && wrong.contains("wait-ms") && wrong.contains("soon"), "{wrong}");
        let unknown = error_of("wait-ms = 1\nwait = 2\n");
        assert!(unknown.contains("`wait`"), "{unknown}");
    }

    #[test]
    fn an_error_shows_no_secret() {
        let wrong = error_of("wait-ms = 1\nsecret = \"hush-hush\" x\n");
        assert!(wrong.contains("c.toml") && wrong.contains("line 2") && !wrong.contains("hush"), "{wrong}");
        let unknown = error_of("secret = \"hush-hush\"\n");
        assert!(unknown.contains("`secret`") && !unknown.contains("hush"), "{unknown}");
    }

    #[test]
    fn only_loopback_needs_no_flag() {
        for fine in ["127.0.0.1:7070", "127.8.9.1:1", "[::1]:7070", "localhost:7070"] {
            assert!(check_plaintext("listen", fine, false).is_ok(), "{fine}");
            assert!(check_loopback("listen-debug", fine).is_ok(), "{fine}");
        }
        for bad in ["0.0.0.0:7070", "[::]:7070", "10.0.0.1:7070", "example.com:7070", "nonsense"] {
            let error = check_plaintext("listen", bad, false).unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("--insecure-plaintext"), "{error}");
            assert!(check_plaintext("listen", bad, true).is_ok());
            let error = check_loopback("listen-debug", bad).unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("loopback"), "{error}");
        }
    }
}
