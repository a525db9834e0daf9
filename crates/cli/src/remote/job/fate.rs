//! What became of each of several jobs. One that is refused takes none of the others with it.

use std::process::ExitCode;

use orloj_client::Error;
use serde::Serialize;
use serde_json::Value;

use super::super::output;
use super::file;
use crate::exit::{Code, Failure};

/// What became of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Fate {
    /// It was not there.
    Created,
    /// It was another one.
    Updated,
    /// It is so already.
    Unchanged,
    /// It is another one, and was left so.
    Kept,
    /// The cluster refused it, or it was left out.
    Refused,
    /// The answer was lost: it may have been made.
    Unknown,
    /// Nothing was tried, since nobody answers any more.
    NotTried,
}

impl Fate {
    /// In the words of the summary.
    fn word(self) -> &'static str {
        match self {
            Fate::Created => "created",
            Fate::Updated => "updated",
            Fate::Unchanged => "unchanged",
            Fate::Kept => "left as they are",
            Fate::Refused => "refused",
            Fate::Unknown => "unknown",
            Fate::NotTried => "not tried",
        }
    }
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// [`Fate::Refused`]; or [`Fate::Unknown`] or [`Fate::NotTried`] where nobody answers.
    pub(super) fate: Fate,
    /// The reason, for people.
    pub(super) why: String,
}

impl Refused {
    /// What an error says of the thing whose body is `value`.
    pub(super) fn by(error: Error, value: &Value) -> Refused {
        let Failure { code, error } = file::pointed(error, value);
        let fate = if code == Code::Unreachable { Fate::Unknown } else { Fate::Refused };
        Refused { fate, why: format!("{error:#}") }
    }
}

/// How many there are of each, such as `2 created, 1 refused`.
pub(super) fn summary(fates: &[Fate]) -> String {
    let order = [
        Fate::Created,
        Fate::Updated,
        Fate::Unchanged,
        Fate::Kept,
        Fate::Refused,
        Fate::Unknown,
        Fate::NotTried,
    ];
    let count = |fate: &Fate| fates.iter().filter(|one| *one == fate).count();
    let parts = order.iter().map(|fate| (count(fate), fate.word())).filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
    if parts.is_empty() { "nothing to do".to_owned() } else { parts.join(", ") }
}

/// The code that they come to, which a line on standard error explains where it is not 0.
pub(super) fn code(fates: &[Fate]) -> ExitCode {
    code_of(fates, &summary(fates))
}

/// The same with words of one's own for what they are.
pub(super) fn code_of(fates: &[Fate], told: &str) -> ExitCode {
    let any = |fate: Fate| fates.contains(&fate);
    let code = match (any(Fate::Unknown) || any(Fate::NotTried), any(Fate::Refused)) {
        (true, _) => Code::Unreachable,
        (false, true) => Code::Refused,
        (false, false) => return ExitCode::SUCCESS,
    };
    output::note(&format!("orloj: not everything is as wanted: {told}"));
    code.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_each_and_the_code_is_that_of_the_worst() {
        let fates = [Fate::Created, Fate::Refused, Fate::Created, Fate::Unchanged];
        assert_eq!(summary(&fates), "2 created, 1 unchanged, 1 refused");
        assert_eq!(summary(&[]), "nothing to do");
        let is =
            |fates: &[Fate], right: ExitCode| assert_eq!(format!("{:?}", code(fates)), format!("{right:?}"));
        is(&fates, Code::Refused.into());
        is(&[Fate::Refused, Fate::Unknown, Fate::NotTried], Code::Unreachable.into());
        is(&[Fate::Created, Fate::Kept, Fate::Updated, Fate::Unchanged], ExitCode::SUCCESS);
    }
}
