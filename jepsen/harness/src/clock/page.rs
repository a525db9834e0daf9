//! The memory that the harness shares with the processes whose clocks it moves.

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicI64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const BYTES: usize = size_of::<AtomicI64>();

/// One mapped number: an offset in ns.
#[derive(Debug)]
pub struct Page(NonNull<AtomicI64>);

// SAFETY: the memory belongs to the mapping, which lives as long as this does, and all access to it is
// atomic.
#[allow(unsafe_code, reason = "a pointer to an atomic number that any thread may use")]
unsafe impl Send for Page {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a pointer to an atomic number that any thread may use")]
unsafe impl Sync for Page {}

impl Page {
    /// Maps the beginning of `file`, which is made long enough.
    pub fn map(file: &File) -> io::Result<Page> {
        file.set_len(BYTES as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory. Nobody
        // shortens the file, so that it can be read and written for as long as it is mapped.
        #[allow(unsafe_code, reason = "a store of one word by pwrite could be seen half done")]
        let start = unsafe { mmap(ptr::null_mut(), BYTES, access, MapFlags::SHARED, file, 0)? };
        Ok(Page(NonNull::new(start.cast()).expect("the kernel does not map at 0")))
    }

    /// The number.
    pub fn offset_ns(&self) -> &AtomicI64 {
        // SAFETY: the mapping is aligned to a page, long enough, and lives as long as the reference. Every
        // other user, also in other processes, reads it in one load.
        #[allow(unsafe_code, reason = "mapped memory has no safe reference")]
        unsafe {
            self.0.as_ref()
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `map` with this length, and no reference outlives `self`.
        #[allow(unsafe_code, reason = "what was mapped is unmapped")]
        let unmapped = unsafe { munmap(self.0.as_ptr().cast(), BYTES) };
        unmapped.expect("the mapping is this one's own");
    }
}
