//! `orloj cert`: a cluster's own authority and its certificates, for those without a PKI.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use orloj_net::Role;
use orloj_net::issue::{Authority, Period};
use orloj_wire::clock::{Clock as _, SystemClock};
use serde_json::json;

use crate::exit::{Failure, Outcome};
use crate::remote::output;
use crate::secret::{read_private, write_private, write_public};

/// The certificate of an authority, in its folder.
pub const AUTHORITY: &str = "ca.pem";
/// Its private key.
const AUTHORITY_KEY: &str = "ca.key";
/// How far the clocks of machines may be apart.
const EARLIER: Duration = Duration::from_secs(3_600);
/// The longest that a certificate may be good, in days.
const MOST_DAYS: u32 = 36_500;

/// `orloj cert …`
#[derive(Debug, Subcommand)]
pub enum CertCommand {
    /// Make the authority of a cluster: ca.pem, which every process gets, and ca.key, which none needs.
    Ca {
        /// The cluster: `store.cluster` of its replicas.
        cluster: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        out: Out,
        /// Days that it is good for.
        #[arg(long, default_value_t = 3_650, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DAYS)))]
        days: u32,
    },
    /// Make the certificate of a replica.
    Replica {
        /// Its internal address: `store.internal`, host:port.
        internal: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        leaf: Leaf,
    },
    /// Make the certificate of an executor.
    Executor {
        /// Its id.
        id: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        leaf: Leaf,
    },
    /// Make the certificate of a program that calls the API.
    Client {
        /// A name for it.
        name: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        leaf: Leaf,
    },
}

/// Where the files go.
#[derive(Debug, Args)]
pub struct Out {
    /// The folder of the authority.
    #[arg(long, default_value = "certificates")]
    pub dir: PathBuf,
}

/// What every certificate takes.
#[derive(Debug, Args)]
pub struct Leaf {
    #[command(flatten)]
    #[allow(missing_docs, reason = "its fields are documented")]
    pub out: Out,
    /// Another host name or address that callers may find in their URL; may be repeated.
    #[arg(long = "host")]
    pub hosts: Vec<String>,
    /// Days that it is good for.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DAYS)))]
    pub days: u32,
}

/// Runs a command.
///
/// # Errors
/// Names that no certificate can carry, files that cannot be read or written.
pub fn run(command: &CertCommand, json: bool) -> Outcome {
    let written = match command {
        CertCommand::Ca { cluster, out, days } => {
            make(&out.dir, cluster, *days).map(|_| AUTHORITY.to_owned())
        }
        CertCommand::Replica { internal, leaf } => {
            let host = internal.rsplit_once(':').map(|(host, _)| host.to_owned());
            one(leaf, Role::Replica, internal, host.context("the address is not host:port"))
        }
        CertCommand::Executor { id, leaf } => one(leaf, Role::Executor, id, Ok(String::new())),
        CertCommand::Client { name, leaf } => one(leaf, Role::Client, name, Ok(String::new())),
    };
    let name = written.map_err(Failure::usage)?;
    let dir = command.dir();
    let (cert, key) = (dir.join(&name), dir.join(&name).with_extension("key"));
    match json {
        true => output::line(&json!({ "cert": cert, "key": key }).to_string())?,
        false => output::line(&format!("{}\n{}", cert.display(), key.display()))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl CertCommand {
    fn dir(&self) -> &Path {
        match self {
            CertCommand::Ca { out, .. } => &out.dir,
            CertCommand::Replica { leaf, .. }
            | CertCommand::Executor { leaf, .. }
            | CertCommand::Client { leaf, .. } => &leaf.out.dir,
        }
    }
}

fn one(leaf: &Leaf, role: Role, name: &str, host: anyhow::Result<String>) -> anyhow::Result<String> {
    let authority = open(&leaf.out.dir)?;
    let first = Some(host?).filter(|host| !host.is_empty());
    let hosts: Vec<String> = first.into_iter().chain(leaf.hosts.iter().cloned()).collect();
    let file = file_name(role, name);
    issue(&authority, &leaf.out.dir, &file, (role, name), &hosts, leaf.days)?;
    Ok(format!("{file}.pem"))
}

/// A name for the files of a certificate: an address has characters that not every shell likes.
fn file_name(role: Role, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    format!("{}-{}", role.word(), name.chars().map(plain).collect::<String>())
}

fn period(days: u32) -> Period {
    let now_s = SystemClock::new().wall_ms().div_euclid(1_000);
    let earlier_s = i64::try_from(EARLIER.as_secs()).unwrap_or(0);
    Period { from_s: now_s - earlier_s, until_s: now_s + i64::from(days) * 86_400 }
}

/// Makes an authority in a folder that has none.
fn make(dir: &Path, cluster: &str, days: u32) -> anyhow::Result<Authority> {
    let (cert, key) = (dir.join(AUTHORITY), dir.join(AUTHORITY_KEY));
    for path in [&cert, &key] {
        if path.exists() {
            bail!("{} exists already: an authority is not replaced; give another --dir", path.display());
        }
    }
    let (authority, issued) = Authority::create(cluster, period(days))?;
    write_private(&key, &issued.key)?;
    write_public(&cert, &issued.cert)?;
    Ok(authority)
}

fn open(dir: &Path) -> anyhow::Result<Authority> {
    let cert = dir.join(AUTHORITY);
    let pem = fs::read_to_string(&cert)
        .with_context(|| format!("{}: cannot read it; orloj cert ca makes an authority", cert.display()))?;
    let key = read_private(&dir.join(AUTHORITY_KEY))?;
    Authority::open(&pem, &key).with_context(|| dir.display().to_string())
}

/// The authority in a folder, made when there is none.
///
/// # Errors
/// Files that cannot be read or written, or are another authority's.
pub fn open_or_make(dir: &Path, cluster: &str, days: u32) -> anyhow::Result<Authority> {
    match fs::metadata(dir.join(AUTHORITY)) {
        Err(error) if error.kind() == ErrorKind::NotFound => make(dir, cluster, days),
        _ => open(dir),
    }
}

/// Makes a certificate and writes it and its key to `<file>.pem` and `<file>.key` of the folder.
///
/// # Errors
/// A name or host that no certificate can carry, files that cannot be written.
pub fn issue(
    authority: &Authority,
    dir: &Path,
    file: &str,
    (role, name): (Role, &str),
    hosts: &[String],
    days: u32,
) -> anyhow::Result<()> {
    let issued = authority.issue(role, name, hosts, period(days))?;
    // The key first: a process that looks between the two finds that they do not fit, and looks again.
    write_private(&dir.join(format!("{file}.key")), &issued.key)?;
    write_public(&dir.join(format!("{file}.pem")), &issued.cert)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orloj_net::{Identity, Tls, TlsOptions};

    #[test]
    fn what_is_made_can_be_used_and_an_authority_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let leaf = Leaf { out: Out { dir: dir.path().to_owned() }, hosts: vec!["h".into()], days: 1 };
        assert!(one(&leaf, Role::Executor, "e1", Ok(String::new())).is_err(), "no authority yet");
        make(dir.path(), "blue", 1).unwrap();
        assert!(make(dir.path(), "blue", 1).is_err());
        let file = one(&leaf, Role::Replica, "127.0.0.1:7071", Ok("127.0.0.1".into())).unwrap();
        assert_eq!(file, "replica-127.0.0.1_7071.pem");
        let at = |name: &str| dir.path().join(name);
        let options = TlsOptions {
            ca: at(AUTHORITY),
            cert: at(&file),
            key: at("replica-127.0.0.1_7071.key"),
            reload_ms: 1_000,
        };
        let own = Identity::new("blue", Role::Replica, "127.0.0.1:7071").unwrap();
        Tls::load_as(options.files(), &own).unwrap();
        assert!(one(&leaf, Role::Client, "a/b", Ok(String::new())).is_err());
    }
}
