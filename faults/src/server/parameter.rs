//! `set_parameter`: another value of a server parameter for a time.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, doc};
use serde_json::{Value, json};

use crate::catalog::Kind;
use crate::{
    CommandError, Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Site,
    TARGET_PRIMARY, Takes, facts,
};

/// `setParameter`.
pub const SET_PARAMETER: Kind = Kind {
    name: "set_parameter",
    group: "server",
    does: "sets a server parameter that can be changed while it runs, and puts its former value back",
    parameters: &[
        TARGET_PRIMARY,
        Parameter { name: "name", takes: Takes::Text, default: Preset::Required, about: "which parameter" },
        Parameter {
            name: "value",
            takes: Takes::Any,
            default: Preset::Required,
            about: "its value meanwhile",
        },
        FOR_30_S,
    ],
    needs: &[],
    build: |parameters| {
        let value = parameters.any("value").cloned().unwrap_or(Value::Null);
        Ok(Box::new(SetParameter {
            target: parameters.target("target")?,
            name: parameters.text("name")?,
            value: Bson::try_from(value).map_err(|error| format!("value: {error}"))?,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct SetParameter {
    target: NodeTarget,
    name: String,
    value: Bson,
    hold: Duration,
}

#[async_trait]
impl Fault for SetParameter {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let former = match get(site, &self.name).await {
            Ok(former) => former,
            Err(error @ CommandError::Server { .. }) => {
                return Err(site.unavailable(format!("has no parameter {:?}: {error}", self.name)));
            }
            Err(error) => return Err(site.failed("read a parameter of", error)),
        };
        if alike(&former, &self.value) {
            return Err(site.nothing_to_do(format!("has {} = {former} already", self.name)));
        }
        // Some have a value at first that nobody may set (0 for "the server decides"): what could not be put back is
        // left alone. Set to what it is, nothing changes.
        if let Err(CommandError::Server { message, .. }) = set(site, &self.name, former.clone()).await {
            let why = format!("refuses {} = {former}, its present value: {message}", self.name);
            return Err(site.unavailable(why));
        }
        Ok(facts([("former", former.into_canonical_extjson())]))
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        match set(site, &self.name, self.value.clone()).await {
            Ok(()) => {
                Ok(facts([("name", json!(self.name)), ("value", self.value.clone().into_relaxed_extjson())]))
            }
            Err(CommandError::Server { message, .. }) => {
                let why = format!("refuses {} = {}: {message}", self.name, self.value);
                Err(site.unavailable(why))
            }
            Err(error) => Err(site.failed("set a parameter of", error)),
        }
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        has(site, &self.name, &self.value, deadline).await
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let former = former(memo);
        // Also when it was refused: then it is what it was.
        if get(site, &self.name).await.is_ok_and(|now| alike(&now, &former)) {
            return Ok(facts([("value", former.into_relaxed_extjson())]));
        }
        match set(site, &self.name, former.clone()).await {
            Ok(()) => Ok(facts([("value", former.into_relaxed_extjson())])),
            // A value that was set while it ran ends with its process.
            Err(CommandError::Io(_))
                if site.on.pid(site.node).await.is_none() && site.on.ends_with_tester() =>
            {
                Ok(facts([("down", json!(true))]))
            }
            Err(error) => Err(site.failed("put back a parameter of", error)),
        }
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        has(site, &self.name, &former(memo), deadline).await
    }
}

fn former(memo: &Memo) -> Bson {
    Bson::try_from(memo["former"].clone()).unwrap_or(Bson::Null)
}

async fn get(site: &Site<'_>, name: &str) -> Result<Bson, CommandError> {
    let mut answer = site.ask(doc! { "getParameter": 1, name: 1 }).await?;
    answer.remove(name).ok_or_else(|| CommandError::Protocol(format!("no {name} in the answer")))
}

async fn set(site: &Site<'_>, name: &str, value: Bson) -> Result<(), CommandError> {
    site.ask(doc! { "setParameter": 1, name: value }).await.map(drop)
}

async fn has(site: &Site<'_>, name: &str, value: &Bson, deadline: Duration) -> Result<Evidence, FaultError> {
    let what = format!("{name} = {value}");
    site.until(deadline, &what, || async {
        let now = get(site, name).await.ok()?;
        alike(&now, value).then(|| facts([("value", now.into_relaxed_extjson())]))
    })
    .await
}

/// A number is a number, however wide.
fn alike(a: &Bson, b: &Bson) -> bool {
    let number = |value: &Bson| match value {
        Bson::Int32(n) => Some(f64::from(*n)),
        #[expect(clippy::cast_precision_loss, reason = "no parameter is that large")]
        Bson::Int64(n) => Some(*n as f64),
        Bson::Double(n) => Some(*n),
        _ => None,
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => (a - b).abs() < f64::EPSILON,
        _ => a == b,
    }
}
