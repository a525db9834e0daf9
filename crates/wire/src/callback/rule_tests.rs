#![allow(clippy::unwrap_used, reason = "a failed test")]

use super::*;

fn entry(host: &str) -> HostEntry {
    HostEntry { host: host.into(), ports: vec![443], plain_http: false, allow_cidrs: Vec::new() }
}

fn rules(entries: &[HostEntry]) -> Vec<HostRule> {
    entries.iter().map(|entry| HostRule::new(entry).unwrap()).collect()
}

fn usual() -> Vec<HostRule> {
    let local = HostEntry {
        ports: vec![8080],
        plain_http: true,
        allow_cidrs: vec!["127.0.0.0/8".into(), "169.254.0.0/16".into()],
        ..entry("localhost")
    };
    rules(&[entry("hooks.example.com"), entry("*.hooks.example.org"), local])
}

#[test]
fn what_is_listed_passes() {
    for url in [
        "https://hooks.example.com/cb",
        "https://hooks.example.com",
        "https://hooks.example.com:443/cb?x=1&y=%20",
        "https://HOOKS.example.com/cb",
        "https://a.hooks.example.org/",
        "https://a.b.hooks.example.org/",
        "http://localhost:8080/",
        "https://localhost:8080/",
    ] {
        assert!(check_url(url, &usual()).is_ok(), "{url}: {:?}", check_url(url, &usual()));
    }
}

#[test]
fn what_is_not_listed_does_not() {
    for url in [
        "https://example.com/",
        "https://hooks.example.com.evil.org/",
        "https://evilhooks.example.com/",
        "https://x.hooks.example.com/",
        "https://hooks.example.com:8443/",
        "http://hooks.example.com/",
        "http://hooks.example.com:443/",
        "https://hooks.example.org/",
        "https://xhooks.example.org/",
        "http://localhost/",
        "http://localhost:8081/",
    ] {
        assert!(matches!(check_url(url, &usual()), Err(UrlFault::NotListed { .. })), "{url}");
    }
    let nothing = check_url("https://hooks.example.com/", &[]);
    assert!(matches!(nothing, Err(UrlFault::NotListed { .. })), "an empty list allows nothing");
}

#[test]
fn b117_no_spelling_of_an_address_is_a_host() {
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "127.1",
        "017700000001",
        "0177.0.0.1",
        "0",
        "1.1.1.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "127.0.0.1.",
        "127%2e0%2e0%2e1",
        "localhost.",
        "100.64.0.1",
        "10.0.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[2002:7f00:1::1]",
        "ok@127.0.0.1",
        "hooks.example.com@127.0.0.1",
    ] {
        let url = format!("https://{host}/");
        assert!(matches!(check_url(&url, &usual()), Err(UrlFault::Form(_))), "{url}");
    }
}

#[test]
fn an_address_that_a_parser_would_repair_is_refused() {
    let long = format!("https://hooks.example.com/{}", "x".repeat(URL_LIMIT));
    let longer = format!("https://hooks.example.com/{}", "\"".repeat(1_000));
    for url in [
        "",
        "hooks.example.com",
        "https:hooks.example.com",
        "https:/hooks.example.com",
        "https:///hooks.example.com/",
        "https:\\\\hooks.example.com/",
        "https://hooks.example.com\\@evil.org/",
        "https://evil.org\\.hooks.example.com/",
        "https://hooks.example.com#@evil.org/",
        "https://user@hooks.example.com/",
        "https://user:pass@hooks.example.com/",
        "https://@hooks.example.com/",
        "https://:@hooks.example.com/",
        "https://hooks.example.com@evil.org/",
        "https://hooks.example.com./",
        "https://hooks.example.com%00.evil.org/",
        "https://hooks%2eexample.com/",
        "https://ho\toks.example.com/",
        "https://ho\noks.example.com/",
        " https://hooks.example.com/",
        "https://hooks.example.com/ ",
        "https://①②⑦.0.0.1/",
        "https://hooks。example.com/",
        "https://ｈooks.example.com/",
        "https://hooks.example.com:0x1bb/",
        "https://hooks.example.com:99999/",
        "HTTPS://hooks.example.com/",
        "ftp://hooks.example.com/",
        "file:///etc/passwd",
        "gopher://hooks.example.com/",
        "https://",
        "https://xn--/",
        &long,
        &longer,
    ] {
        assert!(
            matches!(check_url(url, &usual()), Err(UrlFault::Form(_))),
            "{url}: {:?}",
            check_url(url, &usual())
        );
    }
}

#[test]
fn rules_of_odd_forms_are_refused() {
    for host in [
        "",
        "*",
        "*.",
        "*.com",
        "**.example.com",
        "a.*.example.com",
        "*a.example.com",
        "Example.com",
        "a..b",
        ".a",
        "a.",
        "127.0.0.1",
        "1.2.3",
        "0x7f",
        "x.0x7f",
        "[::1]",
        "a b",
        "münchen.de",
        "a/b",
        "a:443",
        "a@b",
    ] {
        assert!(HostRule::new(&entry(host)).is_err(), "{host:?}");
    }
    assert!(HostRule::new(&HostEntry { ports: vec![], ..entry("a.b") }).is_err());
    assert!(HostRule::new(&HostEntry { ports: vec![0], ..entry("a.b") }).is_err());
    let open = HostEntry { allow_cidrs: vec!["10.0.0.1/8".into()], ..entry("a.b") };
    assert!(HostRule::new(&open).unwrap_err().contains("10.0.0.1/8"));
    for host in ["localhost", "a.b", "xn--mnchen-3ya.de", "*.example.com", "my_host"] {
        assert!(HostRule::new(&entry(host)).is_ok(), "{host}");
    }
}

#[test]
fn only_what_the_rule_and_the_server_name_is_reached_beside_the_public_internet() {
    let destination = check_url("http://localhost:8080/", &usual()).unwrap();
    let reach = |address: &str, allowed: &[&str]| {
        let allowed: Vec<_> = allowed.iter().map(|text| Cidr::parse(text).unwrap()).collect();
        destination.may_reach(address.parse().unwrap(), &allowed)
    };
    assert!(reach("1.1.1.1", &[]));
    assert!(!reach("127.0.0.1", &[]), "the server does not allow it");
    assert!(reach("127.0.0.1", &["127.0.0.0/8"]));
    assert!(reach("::ffff:127.0.0.1", &["127.0.0.0/8"]));
    assert!(!reach("10.0.0.1", &["10.0.0.0/8"]), "the rule does not allow it");
    assert!(!reach("169.254.169.254", &["169.254.0.0/16"]), "link-local never");
    assert!(!reach("fe80::1", &["fe80::/10"]));
    let public = check_url("https://hooks.example.com/", &usual()).unwrap();
    assert!(!public.may_reach("127.0.0.1".parse().unwrap(), &[Cidr::parse("127.0.0.0/8").unwrap()]));
}

#[test]
fn what_is_dialled_is_what_was_checked() {
    let destination = check_url("http://localhost:8080/a/b?c=d", &usual()).unwrap();
    assert_eq!((destination.host(), destination.port(), destination.is_tls()), ("localhost", 8080, false));
    assert_eq!(
        (destination.target().as_str(), destination.authority().as_str()),
        ("/a/b?c=d", "localhost:8080")
    );
    let destination = check_url("https://HOOKS.example.com", &usual()).unwrap();
    assert_eq!(
        (destination.host(), destination.port(), destination.is_tls()),
        ("hooks.example.com", 443, true)
    );
    assert_eq!((destination.target().as_str(), destination.authority().as_str()), ("/", "hooks.example.com"));
}
