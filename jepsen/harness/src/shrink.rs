//! Delta debugging: the smallest set of steps that still fails.

/// Takes away what `fails` does not need: first big pieces, then smaller ones, at last single steps. What is left
/// fails, and leaving out any single one of it was tried and did not fail.
///
/// # Errors
/// The first error of `fails`.
pub fn shrink<T: Clone, E>(steps: &[T], mut fails: impl FnMut(&[T]) -> Result<bool, E>) -> Result<Vec<T>, E> {
    let mut left = steps.to_vec();
    let mut piece = left.len().div_ceil(2).max(1);
    loop {
        let mut taken = false;
        let mut at = 0;
        while at < left.len() {
            let end = (at + piece).min(left.len());
            let candidate = [&left[..at], &left[end..]].concat();
            if fails(&candidate)? {
                left = candidate;
                taken = true;
            } else {
                at = end;
            }
        }
        // A step that was needed beside another may be free now: single steps are tried until all are needed.
        if piece == 1 && !taken {
            return Ok(left);
        }
        piece = if piece == 1 { 1 } else { piece.div_ceil(2) };
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn shrunk(count: u32, needed: &[u32]) -> (Vec<u32>, u32) {
        let all: Vec<u32> = (0..count).collect();
        let mut tries = 0;
        let left = shrink(&all, |steps| {
            tries += 1;
            Ok::<bool, Infallible>(needed.iter().all(|step| steps.contains(step)))
        });
        (left.unwrap(), tries)
    }

    #[test]
    fn only_what_is_needed_is_left() {
        assert_eq!(shrunk(40, &[7]).0, [7]);
        assert_eq!(shrunk(40, &[3, 4, 39]).0, [3, 4, 39]);
        assert_eq!(shrunk(1, &[0]).0, [0]);
        assert_eq!(shrunk(0, &[]).0, [0_u32; 0]);
    }

    #[test]
    fn it_costs_far_fewer_tries_than_there_are_subsets() {
        let (left, tries) = shrunk(64, &[20]);
        assert_eq!(left, [20]);
        assert!(tries < 64, "{tries} tries");
    }

    #[test]
    fn what_fails_without_any_step_needs_none() {
        assert_eq!(shrunk(10, &[]).0, [0_u32; 0]);
    }

    #[test]
    fn an_error_ends_it() {
        assert_eq!(shrink(&[1, 2], |_| Err::<bool, &str>("no cluster")), Err("no cluster"));
    }
}
