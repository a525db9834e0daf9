//! Tries with bad credentials, by where they come from. Pure: time is passed in.
//!
//! Behind one address may be a proxy and many callers. So tries are counted by address and claimed access key: who
//! fails with one key is slowed down for that key alone. A wider budget of the whole address bounds those who claim
//! another key each time. Headers in which proxies name the address behind them are not looked at: nobody signs them,
//! so whoever reaches this listener could claim any address. A key that is not there is counted like one that is, so
//! that the answers tell nobody which keys exist.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::limit::{Pool, Rate};

/// Of one access key from one address: so many failed tries at once, and per second after that.
const OF_KEY: Rate = Rate { per_s: 50.0, burst: 1_000 };
/// Of one address with all keys.
const OF_ADDRESS: Rate = Rate { per_s: 500.0, burst: 10_000 };
/// How many are told apart, of either kind.
const LIMIT: usize = 10_000;
/// The network part of an IPv6 address that one host has to itself.
const HOST_BITS: u32 = 64;

/// The budgets.
#[derive(Debug)]
pub struct Tries {
    of_key: Pool<(IpAddr, String)>,
    of_address: Pool<IpAddr>,
}

impl Default for Tries {
    fn default() -> Self {
        Tries { of_key: Pool::new(OF_KEY, LIMIT), of_address: Pool::new(OF_ADDRESS, LIMIT) }
    }
}

impl Tries {
    /// Whether a request from this address that claims this key may try; empty for none of a valid form.
    pub fn may_try(&mut self, address: IpAddr, access_key: &str, now: Duration) -> bool {
        let address = host(address);
        self.of_address.has_one(&address, now) && self.of_key.has_one(&(address, access_key.to_owned()), now)
    }

    /// Counts a try that failed.
    pub fn failed(&mut self, address: IpAddr, access_key: &str, now: Duration) {
        let address = host(address);
        self.of_address.take(address, now);
        self.of_key.take((address, access_key.to_owned()), now);
    }
}

/// The address as it is counted: of IPv6 the network, since a host chooses the rest as it likes.
pub(crate) fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> HOST_BITS << HOST_BITS)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn callers_behind_one_proxy_pay_for_themselves() {
        let (mut tries, proxy, now) = (Tries::default(), ip("10.0.0.1"), Duration::ZERO);
        for _ in 0..OF_KEY.burst {
            assert!(tries.may_try(proxy, "ak_A", now));
            tries.failed(proxy, "ak_A", now);
        }
        assert!(!tries.may_try(proxy, "ak_A", now));
        assert!(tries.may_try(proxy, "ak_B", now) && tries.may_try(proxy, "", now));
        assert!(tries.may_try(ip("10.0.0.2"), "ak_A", now));
        assert!(tries.may_try(proxy, "ak_A", Duration::from_millis(20)), "50 per second");
    }

    #[test]
    fn another_key_with_each_try_is_no_way_around() {
        let (mut tries, address, now) = (Tries::default(), ip("2001:db8::1"), Duration::ZERO);
        let mut passed = 0;
        for number in 0..2 * OF_ADDRESS.burst {
            let key = format!("ak_{number}");
            if tries.may_try(address, &key, now) {
                passed += 1;
                tries.failed(address, &key, now);
            }
        }
        assert_eq!(passed, OF_ADDRESS.burst);
        assert!(!tries.may_try(ip("2001:db8::ffff"), "ak_A", now), "the same network");
        assert!(tries.may_try(ip("2001:db8:0:1::1"), "ak_A", now));
        assert_eq!(host(ip("::ffff:10.0.0.1")), ip("10.0.0.1"));
    }
}
