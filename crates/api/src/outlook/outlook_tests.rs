#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, join_all};
use orloj_model::time::ManualClock;
use orloj_wire::callback::{HostEntry, HostRule, check_url};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::looks::{MOST, PLACES};
use super::*;

/// Knows hosts that begin with addresses, such as `10-0-0-5.203-0-114-9.example.com`; answers for `slow` once it is
/// told to, and never for `silent`.
#[derive(Default)]
struct Names {
    asked: AtomicUsize,
    goes_on: Notify,
}

impl Names {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if host.starts_with("silent") {
                std::future::pending::<()>().await;
            }
            if host.starts_with("slow") {
                self.goes_on.notified().await;
            }
            let labels = host.strip_suffix(".example.com").unwrap_or_default().split('.');
            labels.filter_map(|label| label.replace('-', ".").parse().ok()).collect()
        })
    }
}

fn outlook_of(allowed: &[&str]) -> (Outlook, Arc<Names>, Arc<ManualClock>) {
    let (names, clock) = (Arc::new(Names::default()), Arc::new(ManualClock::at(0)));
    let allowed = allowed.iter().map(|text| Cidr::parse(text).unwrap()).collect();
    (Outlook::new(Arc::clone(&names) as _, allowed, Arc::clone(&clock) as _), names, clock)
}

fn outlook() -> (Outlook, Arc<Names>, Arc<ManualClock>) {
    outlook_of(&[])
}

/// An address of a caller who may reach these ranges.
fn to_with(host: &str, allowed: &[&str]) -> Destination {
    let entry = HostEntry {
        host: "*.example.com".into(),
        ports: vec![443],
        plain_http: false,
        allow_cidrs: allowed.iter().map(|text| (*text).to_owned()).collect(),
    };
    check_url(&format!("https://{host}/cb"), &[HostRule::new(&entry).unwrap()]).unwrap()
}

fn to(host: &str) -> Destination {
    to_with(host, &[])
}

async fn look<S: AsRef<str>>(outlook: &Outlook, hosts: &[S]) {
    let to: Vec<_> = hosts.iter().map(|host| to(host.as_ref())).collect();
    outlook.look(&to, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_leads_inside_is_known_for_a_while_and_one_that_nobody_knows_is_let_pass() {
    let (outlook, names, clock) = outlook();
    let (inside, outside) = ("10-0-0-5.example.com", "203-0-114-9.example.com");
    look(&outlook, &[inside, outside, "unknown.example.com", "silent.example.com"]).await;
    let astray = |host| outlook.leads_astray(&to(host), &[]);
    assert_eq!([inside, outside].map(astray), [true, false]);
    assert_eq!(["unknown.example.com", "silent.example.com", "never.example.com"].map(astray), [false; 3]);
    look(&outlook, &[inside, outside]).await;
    assert_eq!(names.asked(), 4, "what is known is not asked again");
    clock.advance_ms(30_000);
    assert!(!astray(inside), "by now it may lead elsewhere");
    look(&outlook, &[inside]).await;
    assert!(astray(inside));
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_never_answers_is_asked_for_few_names_however_many_requests_there_are() {
    let (outlook, names, clock) = outlook();
    let began = Instant::now();
    let hosts: Vec<String> = (0..100).map(|number| format!("silent-{number}.example.com")).collect();
    join_all(hosts.iter().map(|host| look(&outlook, std::slice::from_ref(host)))).await;
    assert_eq!(names.asked(), PLACES);
    assert!(began.elapsed() < 2 * PATIENCE, "nobody waits longer");
    // Those that still run keep their places, whoever has given up on them.
    clock.advance_ms(60_000);
    let began = Instant::now();
    join_all(hosts.iter().map(|host| look(&outlook, std::slice::from_ref(host)))).await;
    assert_eq!(names.asked(), PLACES);
    assert_eq!(began.elapsed(), Duration::ZERO, "by now nobody waits at all");
}

#[tokio::test(start_paused = true)]
async fn one_request_takes_a_part_of_the_places_alone() {
    let (outlook, names, _clock) = outlook();
    let hosts: Vec<String> = (0..100).map(|number| format!("silent-{number}.example.com")).collect();
    look(&outlook, &hosts).await;
    assert_eq!(names.asked(), AT_ONCE);
    look(&outlook, &["10-0-0-5.example.com"]).await;
    assert!(outlook.leads_astray(&to("10-0-0-5.example.com"), &[]), "another request has places");
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_once_its_look_up_has_ended() {
    let (outlook, names, _clock) = outlook();
    let hosts: Vec<String> = (0..PLACES).map(|number| format!("slow.10-0-0-{number}.example.com")).collect();
    join_all(hosts.iter().map(|host| look(&outlook, std::slice::from_ref(host)))).await;
    assert_eq!(outlook.looks.under_way(), PLACES);
    look(&outlook, &["10-0-1-1.example.com"]).await;
    assert_eq!(names.asked(), PLACES, "no place is free: it is let pass");
    assert!(!outlook.leads_astray(&to("10-0-1-1.example.com"), &[]));
    names.goes_on.notify_waiters();
    while outlook.looks.under_way() > 0 {
        tokio::task::yield_now().await;
    }
    // What was found late is known.
    assert!(hosts.iter().all(|host| outlook.leads_astray(&to(host), &[])));
    look(&outlook, &["10-0-1-1.example.com"]).await;
    assert!(outlook.leads_astray(&to("10-0-1-1.example.com"), &[]));
}

#[tokio::test(start_paused = true)]
async fn a_name_for_which_no_place_is_free_waits_for_one() {
    let (outlook, names, _clock) = outlook();
    let hosts: Vec<String> = (0..PLACES).map(|number| format!("slow.10-0-0-{number}.example.com")).collect();
    let slow = join_all(hosts.iter().map(|host| look(&outlook, std::slice::from_ref(host))));
    let other = ["10-0-1-1.example.com"];
    let later = async {
        while names.asked() < PLACES {
            tokio::task::yield_now().await;
        }
        tokio::join!(look(&outlook, &other), async { names.goes_on.notify_waiters() });
    };
    tokio::join!(slow, later);
    assert_eq!(names.asked(), PLACES + 1);
    assert!(outlook.leads_astray(&to(other[0]), &[]));
}

#[tokio::test(start_paused = true)]
async fn own_listeners_that_nobody_answers_for_keep_no_name_of_a_request_from_being_looked_at() {
    let (outlook, _names, _clock) = outlook();
    let own: Vec<String> = (0..AT_ONCE).map(|number| format!("silent-{number}.example.com:443")).collect();
    // By the alphabet the last one.
    let host = "z.10-0-0-5.example.com";
    outlook.look(&[to(host)], &own).await;
    assert!(outlook.leads_astray(&to(host), &own));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_looked_up_once_for_all_who_ask_for_it() {
    let (outlook, names, _clock) = outlook();
    let hosts = ["slow.10-0-0-5.example.com"];
    let asks = join_all((0..50).map(|_| look(&outlook, &hosts)));
    let answers = async {
        while names.asked() == 0 {
            tokio::task::yield_now().await;
        }
        names.goes_on.notify_waiters();
    };
    tokio::join!(asks, answers);
    assert_eq!(names.asked(), 1);
    assert!(outlook.leads_astray(&to(hosts[0]), &[]));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_leads_nowhere_is_not_asked_for_again_at_once() {
    let (outlook, names, clock) = outlook();
    for (after_ms, asked) in [(0, 1), (4_999, 1), (1, 2)] {
        clock.advance_ms(after_ms);
        look(&outlook, &["unknown.example.com"]).await;
        assert_eq!(names.asked(), asked, "{after_ms}");
    }
}

#[tokio::test]
async fn one_bad_address_of_many_spoils_a_name() {
    let (outlook, _, _clock) = outlook();
    let hosts = ["203-0-114-9.10-0-0-5.example.com", "10-0-0-5.203-0-114-9.example.com"];
    look(&outlook, &hosts).await;
    look(&outlook, &["203-0-114-9.203-0-114-8.example.com"]).await;
    assert!(hosts.iter().all(|host| outlook.leads_astray(&to(host), &[])));
    assert!(!outlook.leads_astray(&to("203-0-114-9.203-0-114-8.example.com"), &[]));
}

#[tokio::test]
async fn a_range_inside_must_be_allowed_to_the_caller_and_by_the_operator() {
    const RANGE: &[&str] = &["10.0.0.0/8"];
    let host = "10-0-0-5.example.com";
    for (operator, caller, astray) in [
        (RANGE, RANGE, false),
        (RANGE, &[][..], true),
        (&[][..], RANGE, true),
        (&["192.168.0.0/16"][..], RANGE, true),
    ] {
        let (outlook, _, _clock) = outlook_of(operator);
        look(&outlook, &[host]).await;
        assert_eq!(outlook.leads_astray(&to_with(host, caller), &[]), astray, "{operator:?} {caller:?}");
    }
}

#[tokio::test]
async fn b117_a_name_that_leads_to_an_own_listener_is_refused() {
    let (outlook, _, _clock) = outlook();
    let host = "203-0-114-9.example.com";
    for (own, astray) in [
        ("203.0.114.9:443", true),
        ("[::ffff:203.0.114.9]:443", true),
        ("https://203.0.114.9", true),
        ("203.0.114.9:7071", false),
        ("203.0.114.8:443", false),
        // By name: the same one, and one that leads there too.
        ("203-0-114-9.Example.com:443", true),
        ("203-0-114-8.203-0-114-9.example.com:443", true),
        ("203-0-114-8.example.com:443", false),
        ("nonsense", false),
    ] {
        let own = ["198.51.100.1:443".to_owned(), own.to_owned()];
        outlook.look(&[to(host)], &own).await;
        assert_eq!(outlook.leads_astray(&to(host), &own), astray, "{own:?}");
    }
}

#[test]
fn own_listeners_are_read_once_in_a_while() {
    let (outlook, _, clock) = outlook();
    let outlook = outlook.with_own_ports(vec![7069]);
    let mut reads = 0;
    let mut read = || {
        let own = outlook.own_listeners(|ports| {
            reads += 1;
            Ok(ports.iter().map(|port| format!("10.0.0.1:{port}")).collect())
        });
        assert_eq!(own.unwrap()[..], ["10.0.0.1:7069".to_owned()]);
        reads
    };
    assert_eq!([read(), read()], [1, 1]);
    clock.advance_ms(1_000);
    assert_eq!(read(), 2);
}

#[tokio::test]
async fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
    let (outlook, _, clock) = outlook();
    let name = |number: usize| format!("10-0-{}-{}.example.com", number / 256, number % 256);
    for number in 0..2 * MOST {
        look(&outlook, &[name(number)]).await;
        clock.advance_ms(1);
        assert!(outlook.looks.known().len() <= MOST);
        assert!(outlook.leads_astray(&to(&name(number)), &[]), "what was found a moment ago is known");
    }
    assert!(outlook.leads_astray(&to(&name(MOST)), &[]), "only as many went as had to");
    assert!(!outlook.leads_astray(&to(&name(MOST - 1)), &[]));
}
