//! `orloj caller`, `orloj key`, `orloj audit`, `orloj init`

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `orloj caller …`: for administrators.
#[derive(Debug, Subcommand)]
pub enum CallerCommand {
    /// List the callers that were made through the API.
    List,
    /// Show a caller with its keys.
    Get {
        /// Its name.
        caller: String,
    },
    /// Make a caller, or change what is given and leave the rest as it is.
    Put(Box<PutCallerArgs>),
    /// Take a caller away with its keys. Its tasks stay.
    Delete {
        /// Its name.
        caller: String,
    },
    /// Make another secret that signs its callbacks; it is shown this once.
    AddSecret {
        /// Its name.
        caller: String,
    },
    /// Take a secret away that signed its callbacks.
    DeleteSecret {
        /// Its name.
        caller: String,
        /// The secret, whs_…
        secret: String,
    },
}

/// `orloj caller put`
#[derive(Debug, Args)]
pub struct PutCallerArgs {
    /// Its name.
    pub caller: String,
    /// For people.
    #[arg(long)]
    pub description: Option<String>,
    /// What its keys may be used for, by comma: submit, sync, read, cancel, jobs. Default: all.
    #[arg(long, value_delimiter = ',')]
    pub scopes: Option<Vec<String>>,
    /// Handlers that it may use, by comma: names, or beginnings that end with *. Default: *.
    #[arg(long, value_delimiter = ',', conflicts_with = "no_handlers")]
    pub handlers: Option<Vec<String>>,
    /// Let it use no handler.
    #[arg(long)]
    pub no_handlers: bool,
    /// Where its callbacks may go: HOST, or JSON as in docs/callbacks.md; may be repeated and stands for the whole
    /// list.
    #[arg(long = "callback-host", value_name = "HOST|JSON", conflicts_with = "no_callback_hosts")]
    pub callback_hosts: Vec<String>,
    /// Let its callbacks go nowhere, as is the default.
    #[arg(long)]
    pub no_callback_hosts: bool,
    /// Requests per second of each key.
    #[arg(long)]
    pub requests_per_s: Option<f64>,
    /// Requests at once after a pause.
    #[arg(long)]
    pub requests_burst: Option<u32>,
    /// Submissions per second of each key.
    #[arg(long)]
    pub submits_per_s: Option<f64>,
    /// Submissions at once after a pause.
    #[arg(long)]
    pub submits_burst: Option<u32>,
    /// Long polls and synchronous calls of each key at once.
    #[arg(long)]
    pub waiters: Option<u32>,
    /// How many of its tasks may run at a time.
    #[arg(long, value_name = "N", conflicts_with = "no_max_running")]
    pub max_running: Option<u64>,
    /// Let as many of its tasks run as there is room for, as is the default.
    #[arg(long)]
    pub no_max_running: bool,
    /// Turn every key of it off.
    #[arg(long, conflicts_with = "enable")]
    pub disable: bool,
    /// Turn its keys on again.
    #[arg(long)]
    pub enable: bool,
}

/// `orloj key …`: for administrators.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// List the keys of a caller; without one, those of administrators.
    List {
        /// The caller.
        caller: Option<String>,
    },
    /// Make a key; its secret is shown this once.
    Create {
        /// The caller.
        #[arg(required_unless_present = "admin")]
        caller: Option<String>,
        /// Make an administrator's key.
        #[arg(long, conflicts_with = "caller")]
        admin: bool,
        /// Of an administrator's key: cluster, callers, audit, by comma. Default: all.
        #[arg(long, value_delimiter = ',', requires = "admin", conflicts_with = "caller")]
        scopes: Option<Vec<String>>,
        /// For people.
        #[arg(long, default_value = "")]
        description: String,
    },
    /// Switch a key off. It signs nothing more from this moment on.
    Disable {
        /// The access key.
        key: String,
    },
    /// Switch a key on again.
    Enable {
        /// The access key.
        key: String,
    },
    /// Take a key away.
    Delete {
        /// The access key.
        key: String,
    },
    /// Show what seals the stored secrets, replica by replica.
    Sealing,
    /// Seal the stored secrets anew with the first of the sealing keys.
    Reseal {
        /// Do not ask every replica first whether it has that key.
        #[arg(long)]
        unchecked: bool,
    },
}

/// `orloj audit`
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Calls that were refused although they were signed well, in place of what administrators changed.
    #[arg(long, conflicts_with = "unsigned")]
    pub denied: bool,
    /// Calls that were refused and of which nobody knows who made them.
    #[arg(long)]
    pub unsigned: bool,
    /// How many, at most.
    #[arg(long, default_value_t = 50, value_parser = super::limit)]
    pub limit: usize,
}

/// `orloj init`
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The secrets file to write, mode 0600; it must not exist. Copy it to every replica.
    #[arg(long)]
    pub secrets_file: PathBuf,
}
