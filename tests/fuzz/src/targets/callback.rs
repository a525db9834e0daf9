//! Addresses of callbacks, and what else a caller or a receiver says about callbacks.

use std::net::IpAddr;

use hyper::Uri;
use orloj_model::callback::{URL_LIMIT, host};
use orloj_wire::address::Cidr;
use orloj_wire::callback::{Destination, HostEntry, HostRule, WebhookSecret, check_url, retry_after_ms};
use orloj_wire::json;

pub(super) const SEEDS: &[&[u8]] = &[
    b"https://hooks.example.com/cb?a=b&c=%20",
    b"HTTPS://user:pass@hooks.example.com:443/../x\\y#z",
    b"https://a.b.hooks.example.org:8443/\xe2\x91\xa0?q='\"<>`{|}^",
    b"http://localhost:8080/\nlocalhost\n*.localhost",
    b"https://[::ffff:127.0.0.1]:443/\n0x7f000001\n2130706433\n*.1",
    b"https://xn--mnchen-3ya.example/\n{\"host\":\"*.example\",\"ports\":[443,1],\"plainHttp\":true,\"allowCidrs\":[\"10.0.0.0/8\"]}",
    b"Wed, 21 Oct 2015 07:29:00 GMT",
    b"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDC2FVsBQIhrs=",
];

/// Addresses to which nobody gets without leave.
const INSIDE: [&str; 12] = [
    "0.0.0.0",
    "127.0.0.1",
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.168.1.1",
    "::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::1",
    "fd00::1",
    "fe80::1",
];

/// A list of hosts: some that the seeds name, and those of the further lines.
fn entries<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<HostEntry> {
    let plain = |host: &str, ports: &[u16], plain_http| HostEntry {
        host: host.to_owned(),
        ports: ports.to_vec(),
        plain_http,
        allow_cidrs: Vec::new(),
    };
    let listed = [
        plain("hooks.example.com", &[443], false),
        plain("*.hooks.example.org", &[443, 8443], false),
        plain("localhost", &[8080], true),
    ];
    let read =
        |line: &'a str| json::read(line.as_bytes()).unwrap_or_else(|_| plain(line, &[443, 8080], true));
    listed.into_iter().chain(lines.take(8).map(read)).collect()
}

/// The rule on lists, once more in other words.
fn is_listed(entry: &HostEntry, to: &Destination) -> bool {
    let names = match entry.host.strip_prefix('*') {
        Some(end) => to.host().len() > end.len() && to.host().ends_with(end),
        None => entry.host == to.host(),
    };
    names && entry.ports.contains(&to.port()) && (to.is_tls() || entry.plain_http)
}

/// The address of a callback against a list of hosts.
pub fn callback(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let url = lines.next().unwrap_or_default();
    if let Some(secret) = WebhookSecret::parse(url) {
        assert_eq!(WebhookSecret::parse(&secret.expose()), Some(secret));
    }
    for now_ms in [i64::MIN, 0, i64::MAX] {
        let _ = retry_after_ms(url, now_ms);
    }
    let entries = entries(lines);
    let (mut listed, mut rules) = (Vec::new(), Vec::new());
    for entry in entries {
        match HostRule::new(&entry) {
            Ok(rule) => {
                listed.push(entry);
                rules.push(rule);
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
    match check_url(url, &rules) {
        Ok(to) => check(url, &to, &listed, &rules),
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
    assert!(check_url(url, &[]).is_err(), "an empty list allows nothing: {url:?}");
}

/// What must hold of every address that is let through.
fn check(written: &str, to: &Destination, listed: &[HostEntry], rules: &[HostRule]) {
    assert!(listed.iter().any(|entry| is_listed(entry, to)), "{written:?} is not on {listed:?}");
    // Nobody who reads the text in another way sees another host in it.
    let (_, rest) = written.split_once("://").expect("it has a scheme");
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let (read, port) = authority.split_once(':').unwrap_or((authority, ""));
    assert!(read.eq_ignore_ascii_case(to.host()), "{written:?} goes to {:?}", to.host());
    assert!(port.is_empty() || port.parse() == Ok(to.port()), "{written:?} goes to port {}", to.port());
    assert_eq!(host(to.url()), to.host());
    let uri: Uri = to.url().parse().unwrap_or_else(|error| panic!("{error}: {:?}", to.url()));
    assert_eq!(uri.host(), Some(to.host()));
    // An address in any spelling is no host.
    assert!(to.host().parse::<IpAddr>().is_err(), "{written:?}");
    let last = to.host().rsplit('.').next().unwrap_or_default();
    assert!(!last.bytes().all(|byte| byte.is_ascii_digit()), "{written:?}");
    // What is stored passes again, and is sent as it is stored.
    assert!(to.url().len() <= URL_LIMIT, "{} bytes are stored", to.url().len());
    let again = check_url(to.url(), rules).unwrap_or_else(|fault| panic!("{fault}: {:?}", to.url()));
    assert_eq!(again.url(), to.url());
    let target: Uri = to.target().parse().unwrap_or_else(|error| panic!("{error}: {:?}", to.target()));
    assert_eq!(target.to_string(), to.target());
    assert!(to.target().starts_with('/') && to.target().bytes().all(|byte| byte.is_ascii_graphic()));
    assert!(to.authority().bytes().all(|byte| byte.is_ascii_graphic()));
    check_reach(to, listed);
}

/// What is inside is reached by leave of both the list and the server, and link-local addresses never.
fn check_reach(to: &Destination, listed: &[HostEntry]) {
    let all = ["0.0.0.0/0", "::/0"].map(|text| Cidr::parse(text).expect("a range"));
    let some = listed.iter().any(|entry| !entry.allow_cidrs.is_empty());
    for text in INSIDE {
        let address: IpAddr = text.parse().expect("an address");
        assert!(!to.may_reach(address, &[]), "{text} without leave of the server");
        assert!(some || !to.may_reach(address, &all), "{text} without leave of the list");
    }
    for text in ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254"] {
        assert!(!to.may_reach(text.parse().expect("an address"), &all), "{text}");
    }
}
