//! The short name of one run, which every name that the run leaves on the machine carries.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Four hexadecimal digits. Runs side by side have different ones, because the journal of a run is created
/// exclusively under its id (see [`crate::journal::Journal::create`]).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// A random id.
    ///
    /// # Errors
    /// When the operating system gives no random numbers.
    pub fn random() -> std::io::Result<Self> {
        use std::io::Read;
        let mut bytes = [0u8; 2];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(format!("{:04x}", u16::from_le_bytes(bytes))))
    }

    /// The four digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the network namespace of `host`: `oj<id>-<host>`.
    pub fn netns(&self, host: &str) -> String {
        format!("oj{}-{host}", self.0)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 4 && text.bytes().all(digit) {
            Ok(Self(text.to_string()))
        } else {
            Err(format!("{text:?} is not a run id: four hexadecimal digits, small letters"))
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_four_digits() {
        assert_eq!("0af3".parse::<RunId>().unwrap().netns("n1"), "oj0af3-n1");
        for bad in ["", "0af", "0AF3", "0af34", "../x"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
        let random = RunId::random().unwrap();
        assert_eq!(random.as_str().parse::<RunId>().unwrap(), random);
    }
}
