//! Placeholder; built in this change series.
