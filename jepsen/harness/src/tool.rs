//! Programs of the system (`mount`, `mkfs.ext4`, …), run to their end.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Runs `program` and gives what it wrote to its standard output.
///
/// Fails when the program is missing or ends with anything but 0; the error has its words.
pub fn tool(program: &str, args: &[&str]) -> Result<String> {
    run(Command::new(program).args(args))
}

/// [`tool`] for a command that is more than words.
pub fn run(command: &mut Command) -> Result<String> {
    // What it says is compared with words in some places.
    command.env("LC_ALL", "C");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}: {}", output.status, words.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether `program` is installed, in one of the folders of `PATH`.
pub fn installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_words_of_the_program() {
        let error = tool("ls", &["/no/such/folder"]).unwrap_err().to_string();
        assert!(error.contains("/no/such/folder"), "{error}");
        assert!(tool("no-such-program", &[]).is_err());
    }

    #[test]
    fn what_is_installed_is_found() {
        assert!(installed("sh"));
        assert!(!installed("no-such-program"));
    }
}
