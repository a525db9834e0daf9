//! The little that the fabric must know of an IPv4 packet.

use std::net::Ipv4Addr;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Where the packet goes, or `None` when it is not whole IPv4.
pub fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let whole = packet.len() >= 20 && packet[0] >> 4 == 4;
    whole.then(|| Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]))
}

/// Flips the payload bit that `random` points at and leaves the checksums alone. False when the packet
/// carries no payload.
pub fn flip_payload_bit(packet: &mut [u8], random: u64) -> bool {
    let Some(start) = payload_start(packet) else { return false };
    let payload = &mut packet[start..];
    let bit = random % (payload.len() as u64 * 8);
    payload[(bit / 8) as usize] ^= 1 << (bit % 8);
    true
}

/// Where the payload begins, when there is one.
fn payload_start(packet: &[u8]) -> Option<usize> {
    destination(packet)?;
    let header = usize::from(packet[0] & 15) * 4;
    let start = match packet[9] {
        TCP => header + usize::from(packet.get(header + 12)? >> 4) * 4,
        UDP => header + 8,
        _ => header,
    };
    (start < packet.len()).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0u8; 40];
        packet[0] = 0x45;
        packet[9] = TCP;
        packet[16..20].copy_from_slice(&[10, 77, 0, 2]);
        packet[32] = 5 << 4;
        packet.extend_from_slice(payload);
        packet
    }

    #[test]
    fn only_whole_ipv4_has_a_destination() {
        assert_eq!(destination(&tcp(b"")), Some(Ipv4Addr::new(10, 77, 0, 2)));
        assert_eq!(destination(&[0x60; 40]), None);
        assert_eq!(destination(&[0x45; 19]), None);
    }

    #[test]
    fn one_bit_of_the_payload_flips_and_nothing_else() {
        for random in [0, 7, 23, u64::MAX] {
            let before = tcp(b"abc");
            let mut after = before.clone();
            assert!(flip_payload_bit(&mut after, random));
            assert_eq!(before[..40], after[..40]);
            let flipped: u32 = before.iter().zip(&after).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!(flipped, 1);
        }
        let mut bare = tcp(b"");
        assert!(!flip_payload_bit(&mut bare, 1));
        // A header length beyond the packet.
        let mut lying = tcp(b"");
        lying[32] = 15 << 4;
        assert!(!flip_payload_bit(&mut lying, 1));
    }
}
