//! Where a callback may go. Applied when a task is submitted, and again before every send.
//!
//! The parsed address is the one that is compared, stored and dialled; an address that the parser had to repair is
//! refused, so that no other reader of the same text can see another host in it.

use std::net::IpAddr;

use orloj_model::callback::URL_LIMIT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::address::{Cidr, is_link_local, is_public};

/// The longest host of a rule, in bytes.
const HOST_LIMIT: usize = 253;
/// The most ports and the most ranges of a rule.
const LIST_LIMIT: usize = 16;

/// One entry of a caller's allow-list, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostEntry {
    /// `hooks.example.com`, or `*.example.com` for every name below `example.com` (not itself).
    pub host: String,
    /// The ports; by default 443.
    #[serde(default = "https_port")]
    pub ports: Vec<u16>,
    /// `http://` is allowed too. By default only `https://` is.
    #[serde(default, alias = "plain-http", skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
    /// Ranges outside the public internet that the host may lead to, such as `10.1.0.0/16`. They count only as far as
    /// the server's own configuration allows them too.
    #[serde(default, alias = "allow-cidrs", skip_serializing_if = "Vec::is_empty")]
    pub allow_cidrs: Vec<String>,
}

fn https_port() -> Vec<u16> {
    vec![443]
}

/// An entry that has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    host: String,
    /// The host stands for every name below it.
    below: bool,
    ports: Vec<u16>,
    plain_http: bool,
    cidrs: Vec<Cidr>,
}

impl HostRule {
    /// Checks an entry.
    ///
    /// # Errors
    /// What is wrong with it, with the value.
    pub fn new(entry: &HostEntry) -> Result<Self, String> {
        let (host, below) = match entry.host.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (entry.host.as_str(), false),
        };
        let labels = host.split('.').count();
        if !is_name(host) || host.len() > HOST_LIMIT || is_numeric(host) {
            return Err(format!("{:?} is no host name in lower case, nor *. and one", entry.host));
        }
        if below && labels < 2 {
            return Err(format!("{:?}: *. must stand before a name of two labels or more", entry.host));
        }
        if entry.ports.is_empty() || entry.ports.contains(&0) || entry.ports.len() > LIST_LIMIT {
            return Err(format!("ports {:?}: 1-{LIST_LIMIT} ports above 0 are needed", entry.ports));
        }
        if entry.allow_cidrs.len() > LIST_LIMIT {
            return Err(format!("{} ranges are more than {LIST_LIMIT}", entry.allow_cidrs.len()));
        }
        let range = |text: &String| {
            Cidr::parse(text).ok_or_else(|| format!("{text:?} is not an address range like 10.0.0.0/8"))
        };
        let cidrs = entry.allow_cidrs.iter().map(range).collect::<Result<_, _>>()?;
        let (host, ports) = (host.to_owned(), entry.ports.clone());
        Ok(HostRule { host, below, ports, plain_http: entry.plain_http, cidrs })
    }

    fn names(&self, host: &str) -> bool {
        match self.below {
            false => host == self.host,
            true => host.strip_suffix(&self.host).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        }
    }
}

/// Labels of lower-case letters, digits, `-` and `_`, none of them empty.
fn is_name(host: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    host.split('.').all(|label| (1..=63).contains(&label.len()) && label.bytes().all(fits))
}

/// Whether the last label makes a name an IPv4 address in one of its many spellings.
fn is_numeric(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Why an address is refused, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// Its form.
    #[error("{0}")]
    Form(&'static str),
    /// Its host, port or scheme is not on the list.
    #[error("{scheme}://{host}:{port} is not on this caller's allow-list")]
    NotListed {
        /// `http` or `https`.
        scheme: String,
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
}

/// An address to which a callback may go, as long as its name leads to where it may.
#[derive(Debug, Clone)]
pub struct Destination {
    url: Url,
    host: String,
    port: u16,
    cidrs: Vec<Cidr>,
}

impl Destination {
    /// The address, as it is stored and sent to.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// The host to resolve, and for TLS.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port to dial.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is reached over TLS.
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The path with the query, as the request line has it.
    pub fn target(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }

    /// The header `Host`.
    pub fn authority(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// Whether an address that the host leads to may be dialled: one of the public internet, or one in a range that
    /// both the caller's rule and the server (`allowed`) name. Link-local addresses never are.
    pub fn may_reach(&self, address: IpAddr, allowed: &[Cidr]) -> bool {
        let address = address.to_canonical();
        let within = |cidrs: &[Cidr]| cidrs.iter().any(|cidr| cidr.holds(address));
        !is_link_local(address) && (is_public(address) || (within(&self.cidrs) && within(allowed)))
    }
}

/// Checks an address against a caller's allow-list; an empty one allows nothing.
///
/// # Errors
/// See [`UrlFault`].
pub fn check_url(text: &str, rules: &[HostRule]) -> Result<Destination, UrlFault> {
    let form = |why| Err(UrlFault::Form(why));
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#'));
    if text.is_empty() || text.len() > URL_LIMIT || !plain {
        return form("must be 1-2048 printable ASCII characters without blank, \\ and #");
    }
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else {
        return form("must begin with https:// (or http://, where the allow-list says so)");
    };
    let Ok(url) = Url::parse(text) else { return form("is malformed") };
    if url.as_str().len() > URL_LIMIT {
        // It is stored and sent as the parser writes it, and must pass again then.
        return form("must have at most 2048 bytes, each character that needs it written as %XX");
    }
    if !url.username().is_empty()
        || url.password().is_some()
        || rest.split(['/', '?']).next().is_some_and(|a| a.contains('@'))
    {
        return form("must not carry a user or a password");
    }
    let Some(Host::Domain(host)) = url.host() else { return form("must name a host, not an address") };
    if host.ends_with('.') {
        return form("must not have a dot at the end of the host");
    }
    let written = rest.split(['/', '?', ':']).next().unwrap_or_default();
    if written.to_ascii_lowercase() != host || !is_name(host) {
        return form("must have a host of letters, digits, - and _, written as it is");
    }
    let (host, Some(port)) = (host.to_owned(), url.port_or_known_default()) else {
        return form("must have a port");
    };
    let tls = url.scheme() == "https";
    let fits = |rule: &&HostRule| rule.names(&host) && rule.ports.contains(&port) && (tls || rule.plain_http);
    // Several entries may name the host: what one of them allows is allowed.
    let cidrs: Vec<_> = rules.iter().filter(fits).flat_map(|rule| rule.cidrs.iter().copied()).collect();
    match rules.iter().any(|rule| fits(&rule)) {
        true => Ok(Destination { url, host, port, cidrs }),
        false => Err(UrlFault::NotListed { scheme: url.scheme().to_owned(), host, port }),
    }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
