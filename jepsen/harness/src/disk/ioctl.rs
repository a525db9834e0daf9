//! What the kernel does to a file system on request: freeze it, thaw it, cut its power.

use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::ioctl::{NoArg, Opcode, Setter, ioctl, opcode};

/// `EXT4_IOC_SHUTDOWN`, which is `_IOR('X', 125, __u32)` although it only takes.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
/// `EXT4_GOING_FLAGS_NOLOGFLUSH`: what has not reached the journal on the disk is lost.
const NO_LOG_FLUSH: u32 = 2;
/// `FIFREEZE`, which is `_IOWR('X', 119, int)` although it looks at nothing.
const FREEZE: Opcode = opcode::read_write::<i32>(b'X', 119);
/// `FITHAW`, likewise.
const THAW: Opcode = opcode::read_write::<i32>(b'X', 120);

/// Shuts the file system of `file` down at once: nothing that is still in memory reaches the disk any more,
/// and every later call on it fails with `EIO`. It serves again once it is unmounted and mounted.
#[allow(unsafe_code, reason = "the kernel has no other call for it, and rustix no wrapper")]
pub fn shutdown(file: impl AsFd) -> Result<()> {
    // SAFETY: this operation reads one `u32` from the pointer that it is given and writes nothing through it,
    // which is what a `Setter` of a `u32` passes.
    unsafe { ioctl(file, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) }
}

/// Lets every write to the file system of `file` wait. `EBUSY` when it is frozen already.
#[allow(unsafe_code, reason = "the kernel has no other call for it, and rustix no wrapper")]
pub fn freeze(file: impl AsFd) -> Result<()> {
    // SAFETY: the kernel does not look at the argument of this operation.
    unsafe { ioctl(file, NoArg::<FREEZE>::new()) }
}

/// Lets the writes go on. `EINVAL` when it is not frozen.
#[allow(unsafe_code, reason = "the kernel has no other call for it, and rustix no wrapper")]
pub fn thaw(file: impl AsFd) -> Result<()> {
    // SAFETY: as for `freeze`.
    unsafe { ioctl(file, NoArg::<THAW>::new()) }
}
