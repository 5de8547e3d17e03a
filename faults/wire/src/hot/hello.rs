//! The greeting of a new connection.

use bson::{RawDocument, rawdoc};

use super::answer::Answer;
use super::line::{Line, LineError};
use super::message::Message;

/// MongoDB 4.2: what this client sends is understood from there on.
const OLDEST_WIRE_VERSION: i32 = 8;
/// MongoDB 8.0: a server that speaks only what came later would not understand us.
const NEWEST_WIRE_VERSION: i32 = 25;

/// Why a server is not one to work with.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    /// The connection broke.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The server refused, or does not say what it is.
    #[error("the server refused the greeting: {0}")]
    Refused(String),
    /// Too old, or too new.
    #[error("the server speaks wire versions {oldest} to {newest}, not one of 8 (MongoDB 4.2) to 25 (8.0)")]
    Version {
        /// The oldest that it speaks.
        oldest: i32,
        /// The newest that it speaks.
        newest: i32,
    },
}

impl Line {
    /// Tells the server who we are, as the first exchange of a connection.
    ///
    /// # Errors
    /// [`GreetError`]; the line is then of no use.
    pub async fn greet(&mut self, application: &str) -> Result<(), GreetError> {
        let hello = rawdoc! {
            "hello": 1,
            "helloOk": true,
            "client": {
                "application": { "name": application },
                "driver": { "name": "mongosoak-wire", "version": env!("CARGO_PKG_VERSION") },
                "os": { "type": std::env::consts::OS },
            },
            "$db": "admin",
        };
        self.exchange(&mut Message::new(&hello)).await?;
        check(self.reply())
    }
}

fn check(reply: &[u8]) -> Result<(), GreetError> {
    let refused = |text: String| GreetError::Refused(text);
    let answer = Answer::read(reply).map_err(|e| refused(e.to_string()))?;
    if !answer.ok {
        let why = answer.refusal();
        return Err(refused(format!("{} ({}): {}", why.code_name, why.code, why.message)));
    }
    let reply = RawDocument::from_bytes(reply).map_err(|e| refused(e.to_string()))?;
    let version = |name: &str| reply.get_i32(name).map_err(|_| refused(format!("no {name}")));
    let (oldest, newest) = (version("minWireVersion")?, version("maxWireVersion")?);
    if newest < OLDEST_WIRE_VERSION || oldest > NEWEST_WIRE_VERSION {
        return Err(GreetError::Version { oldest, newest });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_that_understand_us_are_taken() {
        let said = |oldest: i32, newest: i32| {
            check(rawdoc! { "minWireVersion": oldest, "maxWireVersion": newest, "ok": 1.0 }.as_bytes())
        };
        assert!(said(0, 17).is_ok() && said(0, 8).is_ok() && said(25, 30).is_ok());
        assert!(matches!(said(0, 7), Err(GreetError::Version { oldest: 0, newest: 7 })));
        assert!(matches!(said(26, 30), Err(GreetError::Version { .. })));
        let refusal = rawdoc! { "ok": 0.0, "code": 59, "codeName": "CommandNotFound", "errmsg": "no such" };
        let text = check(refusal.as_bytes()).unwrap_err().to_string();
        assert_eq!(text, "the server refused the greeting: CommandNotFound (59): no such");
        assert!(check(rawdoc! { "ok": 1.0 }.as_bytes()).is_err());
    }
}
