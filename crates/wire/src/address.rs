//! Which addresses a request that somebody else asked for may reach: of the handler `http`, and of callbacks. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    base: u128,
    bits: u32,
    v4: bool,
}

impl Cidr {
    /// Reads `10.0.0.0/8` or `fd00::/8`. Bits beyond the prefix must be zero.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let bits: u32 = bits.parse().ok()?;
        let cidr = Cidr { base: number(address), bits, v4: address.is_ipv4() };
        let width = cidr.width();
        let clean = bits <= width && (bits == width || cidr.base << (128 - width) << bits == 0);
        clean.then_some(cidr)
    }

    fn width(self) -> u32 {
        if self.v4 { 32 } else { 128 }
    }

    /// Whether an address is inside.
    pub fn holds(self, address: IpAddr) -> bool {
        let rest = self.width() - self.bits;
        address.is_ipv4() == self.v4 && (rest == 128 || (number(address) ^ self.base) >> rest == 0)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// IPv4 ranges that are not public: this network, private, shared, loopback, link-local, protocol
/// assignments, documentation, 6to4 relays, benchmarks, multicast, reserved.
const DENIED_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Ranges within the global IPv6 space that are not public or carry an IPv4 address: Teredo and the other
/// special assignments, documentation twice, 6to4.
const DENIED_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
];

/// Whether an address is on the public internet. Everything outside 2000::/3 is not.
pub fn is_public(address: IpAddr) -> bool {
    let within = |base: IpAddr, bits| Cidr { base: number(base), bits, v4: base.is_ipv4() }.holds(address);
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let mapped = IpAddr::V4(v4);
            !DENIED_V4.iter().any(|(base, bits)| {
                Cidr { base: u128::from(base.to_bits()), bits: *bits, v4: true }.holds(mapped)
            })
        }
        IpAddr::V6(_) => {
            within(IpAddr::V6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0)), 3)
                && !DENIED_V6.iter().any(|(base, bits)| within(IpAddr::V6(*base), *bits))
        }
    }
}

/// Whether an address is link-local: where clouds keep the keys of their machines.
pub fn is_link_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => {
            v6.is_unicast_link_local() || v6 == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)
        }
    }
}

/// The rule of one executor.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Ranges beside the public internet.
    pub cidrs: Vec<Cidr>,
    /// Hosts that may be reached whatever their addresses are; lower case.
    pub hosts: Vec<String>,
}

impl Reach {
    /// Whether an address may be reached.
    pub fn address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address) || self.cidrs.iter().any(|cidr| cidr.holds(address))
    }

    /// Whether a host may be reached whatever its addresses are.
    pub fn host(&self, host: &str) -> bool {
        self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "192.0.0.170",
            "192.0.2.1",
            "198.18.0.1",
            "198.19.255.255",
            "203.0.113.7",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
        ];
        for text in private {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "198.20.0.1", "2606:4700::1111", "::ffff:1.1.1.1"]
        {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn ranges() {
        let ten = Cidr::parse("10.1.0.0/16").unwrap();
        assert!(ten.holds("10.1.255.255".parse().unwrap()) && !ten.holds("10.2.0.0".parse().unwrap()));
        assert!(!ten.holds("::a01:0".parse().unwrap()));
        assert!(Cidr::parse("::/0").unwrap().holds("fe80::1".parse().unwrap()));
        assert!(Cidr::parse("0.0.0.0/0").unwrap().holds("1.2.3.4".parse().unwrap()));
        assert!(Cidr::parse("127.0.0.1/32").unwrap().holds("127.0.0.1".parse().unwrap()));
        for bad in ["10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "::1/64", "x/8", "::/129"] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn exceptions_are_named() {
        let reach =
            Reach { cidrs: vec![Cidr::parse("127.0.0.0/8").unwrap()], hosts: vec!["intern".to_owned()] };
        assert!(reach.address("127.0.0.1".parse().unwrap()) && !reach.address("10.0.0.1".parse().unwrap()));
        assert!(reach.address("::ffff:127.0.0.1".parse().unwrap()));
        assert!(reach.host("INTERN") && !reach.host("extern"));
    }
}
