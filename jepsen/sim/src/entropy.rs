//! The operating system's random numbers, under the control of the seed.
//!
//! Ids, nonces, election jitter, the order in which tokio's `select!` looks at its branches and the order of hash
//! maps all come, in the end, from libc's `getrandom`. The program defines that function itself, and the linker
//! prefers the program's own. A thread that [`seed`] was called on draws from its seed; every other thread draws
//! from the kernel.

use std::cell::Cell;

use orloj_jepsen_agents::rng::Rng;

thread_local! {
    static STATE: Cell<Option<Rng>> = const { Cell::new(None) };
}

/// From now on this thread's random numbers come from `seed`. Called first on a fresh thread: what has drawn
/// before (the keys of this thread's hash maps, for one) keeps what it has.
pub fn seed(seed: u64) {
    STATE.set(Some(Rng::new(seed).split("entropy")));
}

/// Fills `buffer`, from the seed when this thread has one.
fn fill(buffer: &mut [u8]) -> Result<usize, rustix::io::Errno> {
    let Some(mut rng) = STATE.take() else {
        return rustix::rand::getrandom(buffer, rustix::rand::GetRandomFlags::empty());
    };
    for chunk in buffer.chunks_mut(8) {
        chunk.copy_from_slice(&rng.bits().to_le_bytes()[..chunk.len()]);
    }
    STATE.set(Some(rng));
    Ok(buffer.len())
}

/// libc's function of this name. Its flags only say which of the kernel's sources is meant and whether to wait.
///
/// # Safety
/// `buffer` must be valid for writes of `length` bytes, or `length` must be 0.
#[allow(
    unsafe_code,
    reason = "libc's own function is what everything below draws from; it has this signature"
)]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    if length == 0 {
        return 0;
    }
    // SAFETY: the caller promises `length` bytes that can be written.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    match fill(buffer) {
        Ok(filled) => isize::try_from(filled).unwrap_or(-1),
        Err(_) => -1,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    fn drawn(with: Option<u64>) -> (u64, Vec<u32>) {
        let draw = move || {
            if let Some(value) = with {
                super::seed(value);
            }
            let order: HashSet<u32> = (0..100).collect();
            let nonce = orloj_wire::sign::new_nonce();
            let number = u64::from_str_radix(&nonce[..16], 16).unwrap();
            (number, order.into_iter().collect())
        };
        std::thread::spawn(draw).join().unwrap()
    }

    #[test]
    fn nonces_and_hash_maps_follow_the_seed_of_their_thread() {
        assert_eq!(drawn(Some(7)), drawn(Some(7)));
        assert_ne!(drawn(Some(7)), drawn(Some(8)));
        assert_ne!(drawn(None), drawn(None), "a thread without a seed asks the kernel");
    }
}
