//! A client for load: one connection, commands built from templates, replies read where they lie.
//!
//! An exchange allocates nothing. It can be dropped at any time, and the [`Line`] then still knows whether
//! the whole request had left: what no driver tells, and what decides between "surely not applied" and
//! "perhaps applied". A line that did not come to the end of an exchange is never used again, so no reply
//! can reach another request.

mod answer;
mod hello;
mod line;
mod message;
mod scan;

pub use answer::{Answer, Refusal};
pub use hello::GreetError;
pub use line::{Line, LineError};
pub use message::Message;
pub use scan::{Element, Elements};
