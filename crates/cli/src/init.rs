//! `orloj init`: the secrets that a cluster begins with.

use std::process::ExitCode;

use anyhow::Context as _;
use toml::{Table, Value};

use crate::args::access::InitArgs;
use crate::exit::{Failure, Outcome};
use crate::remote::output;
use crate::secret::{new_key_id, new_secret, write_private};

/// Writes a secrets file with new secrets and the first administrator's key. One that is there is left alone.
///
/// # Errors
/// The file is there already, or cannot be written.
pub fn run(args: &InitArgs) -> Outcome {
    let path = &args.secrets_file;
    if path.exists() {
        let error = anyhow::anyhow!("{} is there already; nothing was changed", path.display());
        return Err(Failure::usage(error));
    }
    let text = toml::to_string_pretty(&secrets()).context("cannot write secrets as TOML")?;
    write_private(path, &text)?;
    output::line(&format!(
        "{} holds the cluster's secrets and the first administrator's key. Copy it to every replica.",
        path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn secrets() -> Table {
    let text = |text: String| Value::String(text);
    let admin = Table::from_iter([
        ("access-key".to_owned(), text(new_key_id("adk_"))),
        ("secret-key".to_owned(), text(new_secret("ads_"))),
    ]);
    Table::from_iter([
        ("cluster-secret".to_owned(), text(new_secret("cls_"))),
        ("executor-secret".to_owned(), text(new_secret("exs_"))),
        ("sealing-keys".to_owned(), Value::Array(vec![text(new_secret("kek_"))])),
        ("admins".to_owned(), Value::Array(vec![admin.into()])),
    ])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secrets_file_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let args = InitArgs { secrets_file: dir.path().join("secrets.toml") };
        assert!(run(&args).is_ok());
        let mode = std::fs::metadata(&args.secrets_file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(&args.secrets_file).unwrap();
        assert!(text.contains("adk_") && text.contains("kek_"));
        assert!(run(&args).is_err());
        assert_eq!(std::fs::read_to_string(&args.secrets_file).unwrap(), text);
    }
}
