//! Opening a TUN device: the one `ioctl` that no safe interface covers.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io;
use rustix::ioctl::{Setter, ioctl};

/// `struct ifreq` as `TUNSETIFF` reads it: the name, the flags, and the rest of the union.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// `_IOW('T', 202, int)`, from linux/if_tun.h.
const TUNSETIFF: rustix::ioctl::Opcode = 0x4004_54ca;
/// Whole IP packets, without Ethernet headers.
const IFF_TUN: u16 = 0x0001;
/// Without the four bytes of packet information before each packet.
const IFF_NO_PI: u16 = 0x1000;

/// Creates the TUN device `name` in the network namespace of the calling thread. The device lives as long as
/// the descriptor, which does not block: a read gives one whole packet, a write sends one.
///
/// # Errors
/// When the kernel has no TUN, the caller is not privileged, or the name is taken.
pub fn open(name: &str) -> io::Result<OwnedFd> {
    let file =
        rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let mut request = InterfaceRequest { name: [0; 16], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
    if name.len() >= request.name.len() {
        return Err(io::Errno::NAMETOOLONG);
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    set_interface(&file, request)?;
    Ok(file)
}

#[allow(unsafe_code, reason = "an ioctl is unsafe by nature; this is its only use")]
fn set_interface(file: &impl AsFd, request: InterfaceRequest) -> io::Result<()> {
    // SAFETY: TUNSETIFF reads and writes back one `struct ifreq` of 40 bytes, which `InterfaceRequest` is in
    // layout and size; `ioctl` keeps it alive and owned for the call.
    unsafe { ioctl(file, Setter::<TUNSETIFF, _>::new(request)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_the_kernels_size() {
        assert_eq!(std::mem::size_of::<InterfaceRequest>(), 40);
    }

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        // Without TUN at all the opening fails first, which is as well.
        assert!(open("a-name-of-more-than-15-bytes").is_err());
    }
}
