//! mongosoak: the stability and failure-injection soak tester for MongoDB.

pub mod analysis;
pub mod clock;
pub mod exit;
pub mod plan;
pub mod recording;
pub mod report;
pub mod scenario;
