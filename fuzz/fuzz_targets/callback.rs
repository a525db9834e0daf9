//! See the function of this name in tests/fuzz/src/targets.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orloj_fuzz::targets::callback(data));
