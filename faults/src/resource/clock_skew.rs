//! `clock_skew`: the wall clock of one server goes wrong, as on a machine without time synchronization.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use nix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::clock;
use crate::catalog::{Kind, Need};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Proof, Site, TARGET_PRIMARY,
    Takes, facts,
};

/// A server reads its clock now and then and hands out what it has read.
const TOLERANCE_S: f64 = 0.25;
/// Less cannot be told from [`TOLERANCE_S`].
const LEAST_S: f64 = 1.0;
/// Beyond this, times that a server waits for could not be told from times that it measures.
const MOST_S: f64 = 10.0 * 365.0 * 86_400.0;

/// Another offset of the clock library.
pub const CLOCK_SKEW: Kind = Kind {
    name: "clock_skew",
    group: "resource",
    does: "shifts the wall clock of one server, forwards or back, and sets it right again",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "by",
            takes: Takes::Shift,
            default: Preset::Seconds(60.0),
            about: "how far, \"-90s\" for back; a second at least",
        },
        FOR_30_S,
    ],
    needs: &[Need::Managed, Need::ClockShim],
    build: |parameters| {
        let by_s = parameters.number("by")?;
        if !(LEAST_S..=MOST_S).contains(&by_s.abs()) {
            return Err("by: from one second to ten years, either way".into());
        }
        Ok(Box::new(ClockSkew {
            target: parameters.target("target")?,
            by_s,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct ClockSkew {
    target: NodeTarget,
    by_s: f64,
    hold: Duration,
}

#[async_trait]
impl Fault for ClockSkew {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    /// The offset stands in a file, which a server that is started again reads.
    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        if let Some(why) = clock::missing() {
            return Err(site.unavailable(why));
        }
        let server = Proof::at(site).await?;
        let file = clock::offset_file(server.pid);
        let file = file.ok_or_else(|| site.unavailable("was not started with the clock library"))?;
        let offset =
            clock::offset(&file).map_err(|e| site.unavailable(format!("{}: {e}", file.display())))?;
        if offset != 0 {
            return Err(site.nothing_to_do("has a wrong clock already"));
        }
        let mut memo = server.memo();
        memo.insert("clock".into(), json!(file.display().to_string()));
        Ok(memo)
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        #[expect(clippy::cast_possible_truncation, reason = "ten years of nanoseconds fit")]
        let by_ns = (self.by_s * 1e9) as i64;
        clock::set_offset(&file(site, memo)?, by_ns).map_err(|e| site.failed("shift the clock of", e))?;
        Ok(facts([("pid", memo["pid"].clone()), ("by_s", json!(self.by_s))]))
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        is_off_by(site, self.by_s, deadline).await
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        match clock::set_offset(&file(site, memo)?, 0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(site.failed("set the clock right of", error))
            }
            _ => Ok(facts([("by_s", json!(0.0))])),
        }
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        if site.on.pid(site.node).await.is_none() {
            return Ok(facts([("target_gone", json!(true))]));
        }
        is_off_by(site, 0.0, deadline).await
    }
}

fn file(site: &Site<'_>, memo: &Memo) -> Result<PathBuf, FaultError> {
    let file = PathBuf::from(memo["clock"].as_str().unwrap_or_default());
    if clock::is_ours(&file) { Ok(file) } else { Err(site.failed("find the clock of", file.display())) }
}

/// What the server says the time is, compared with the machine's before and after the question.
async fn is_off_by(site: &Site<'_>, by_s: f64, deadline: Duration) -> Result<Evidence, FaultError> {
    site.until(deadline, &format!("its clock is not off by {by_s} s"), || async {
        let before = wall_s()?;
        let says = site.ask(doc! { "hello": 1 }).await.ok()?;
        let after = wall_s()?;
        #[expect(clippy::cast_precision_loss, reason = "exact for the next 285,000 years")]
        let says = says.get_datetime("localTime").ok()?.timestamp_millis() as f64 / 1e3;
        let fits = says - after - TOLERANCE_S <= by_s && by_s <= says - before + TOLERANCE_S;
        fits.then(|| facts([("off_by_s", json!(says - before))]))
    })
    .await
}

/// The wall clock of this machine, as the server would have it: the one thing here that is compared with it.
fn wall_s() -> Option<f64> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).ok()?;
    Some(Duration::from(now).as_secs_f64())
}
