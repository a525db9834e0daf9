//! placeholder
pub mod placement;
pub mod ring;
pub mod wheel;
pub mod waiting;
