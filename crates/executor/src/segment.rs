//! The bytes of one journal segment. Plain data in, plain data out.
//!
//! A segment is [`HEADER`] and then frames: magic, length and CRC-32 as four little-endian bytes each, then
//! the payload. One frame is one group commit, and the next frame is written only when the one before it is
//! on disk. So a crash can damage the last frame alone; anything else that is damaged has been damaged
//! later, and is refused loudly.

/// The first bytes of every segment; the digit is the format's version.
pub(crate) const HEADER: &[u8] = b"ORLOJEX1";
const MAGIC: &[u8; 4] = b"OXF\x01";
const FRAME_HEADER: usize = 12;
/// Greatest payload of a frame, in bytes.
pub(crate) const FRAME_LIMIT: usize = 64 << 20;

/// Appends a frame to `out`.
pub(crate) fn write_frame(out: &mut Vec<u8>, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a frame is bounded by FRAME_LIMIT");
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&checksum(length, payload).to_le_bytes());
    out.extend_from_slice(payload);
}

fn checksum(length: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// What a segment holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scan<'a> {
    /// The payloads, in order.
    pub(crate) frames: Vec<&'a [u8]>,
    /// Up to here everything is sound.
    pub(crate) good: usize,
    /// What follows.
    pub(crate) tail: Tail,
}

/// What follows the last sound frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing.
    Clean,
    /// A frame that was not finished.
    Torn,
    /// A damaged frame with sound ones behind it, or a foreign header.
    Damaged,
}

/// Reads a segment.
pub(crate) fn scan(bytes: &[u8]) -> Scan<'_> {
    if !bytes.starts_with(HEADER) {
        // A segment's header is on disk before its first frame; a crash before that leaves a short file, or
        // zeros where bytes were to come.
        let unfinished = bytes.len() < HEADER.len() || bytes.iter().all(|byte| *byte == 0);
        let tail = if unfinished { Tail::Torn } else { Tail::Damaged };
        return Scan { frames: Vec::new(), good: 0, tail };
    }
    let mut frames = Vec::new();
    let mut good = HEADER.len();
    while let Some(payload) = frame_at(bytes, good) {
        frames.push(payload);
        good += FRAME_HEADER + payload.len();
    }
    let rest = &bytes[good..];
    let sound_behind = || (1..rest.len()).any(|at| frame_at(rest, at).is_some());
    let tail = match rest {
        [] => Tail::Clean,
        _ if sound_behind() => Tail::Damaged,
        _ => Tail::Torn,
    };
    Scan { frames, good, tail }
}

fn frame_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length);
    let payload = rest.get(..length as usize)?;
    (checksum(length, payload) == u32::from_le_bytes(*crc)).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        payloads.iter().for_each(|payload| write_frame(&mut bytes, payload));
        bytes
    }

    #[test]
    fn frames_come_back_in_order() {
        let bytes = segment(&[b"one", b"", b"three"]);
        let scan = scan(&bytes);
        assert_eq!(
            (scan.frames, scan.good, scan.tail),
            (vec![&b"one"[..], b"", b"three"], bytes.len(), Tail::Clean)
        );
    }

    #[test]
    fn the_bytes_are_fixed() {
        let bytes = segment(&[b"ab"]);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "4f524c4f4a4558314f584601020000003a5a50236162");
    }

    #[test]
    fn every_cut_of_the_last_frame_is_a_torn_tail() {
        let whole = segment(&[b"one", b"two"]);
        let sound = segment(&[b"one"]).len();
        for cut in sound + 1..whole.len() {
            let scan = scan(&whole[..cut]);
            assert_eq!((scan.frames.len(), scan.good, scan.tail), (1, sound, Tail::Torn), "cut at {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_in_the_last_frame_is_a_torn_tail_and_before_it_damage() {
        let whole = segment(&[b"one", b"two"]);
        let second = segment(&[b"one"]).len();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let expected = if at < second { Tail::Damaged } else { Tail::Torn };
            assert_eq!(scan(&bytes).tail, expected, "bit of byte {at}");
        }
    }

    #[test]
    fn zeros_behind_the_last_frame_are_a_torn_tail() {
        let mut bytes = segment(&[b"one"]);
        bytes.extend_from_slice(&[0; 4_096]);
        assert_eq!(scan(&bytes).tail, Tail::Torn);
    }

    #[test]
    fn a_forged_length_is_not_believed() {
        let mut bytes = segment(&[]);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&u32::MAX.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        assert_eq!(scan(&bytes).tail, Tail::Torn);
    }
}
