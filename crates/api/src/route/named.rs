//! What a path names, for messages.

use super::PREFIX;
use crate::missing::Missing;

/// The name of a thing of this kind in a path; `None` where it names none.
pub fn named(path: &str, kind: Missing) -> Option<&str> {
    let place = match kind {
        // callers/{id}/webhook-secrets/{secret}
        Missing::WebhookSecret => 3,
        // cluster/members/{id}/remove
        Missing::Member => 2,
        _ => 1,
    };
    path.strip_prefix(PREFIX)?.split('/').nth(place)
}
