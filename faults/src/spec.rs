//! A kind with its parameters: what the plan, the undo journal and the recording hold of a fault.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::catalog::{self, Kind};
use crate::{Fault, NodeTarget};

/// What is done, with its parameters. Its JSON form is that of the scenario file, with durations in seconds and
/// sizes in bytes: `{"kill": {"target": "primary", "restart_after": 10.0}}`.
#[derive(Clone, Debug)]
pub struct Spec {
    kind: &'static Kind,
    parameters: Parameters,
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.kind.name == other.kind.name && self.parameters == other.parameters
    }
}

impl Spec {
    /// This kind with these parameters; the others have their defaults.
    ///
    /// # Errors
    /// What is missing, unknown or does not fit, as a sentence.
    pub fn new(kind: &str, given: &Value) -> Result<Self, String> {
        let kind = catalog::kind(kind).ok_or_else(|| format!("no fault is called {kind:?}"))?;
        let empty = Map::new();
        let given = given.as_object().unwrap_or(&empty);
        let known = |name: &String| kind.parameters.iter().any(|p| p.name == name);
        if let Some(unknown) = given.keys().find(|name| !known(name)) {
            return Err(format!("{} has no parameter {unknown:?}", kind.name));
        }
        let mut values = Map::new();
        for parameter in kind.parameters {
            let value = given.get(parameter.name).cloned().or_else(|| parameter.default.json());
            match value {
                Some(value) => drop(values.insert(parameter.name.into(), value)),
                None if parameter.default == crate::Preset::Required => {
                    return Err(format!("{} needs {:?}", kind.name, parameter.name));
                }
                None => {}
            }
        }
        let spec = Self { kind, parameters: Parameters(values) };
        (kind.build)(&spec.parameters)?;
        Ok(spec)
    }

    /// Its entry in the catalogue.
    #[must_use]
    pub const fn entry(&self) -> &'static Kind {
        self.kind
    }

    /// Name in the catalogue.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        self.kind.name
    }

    /// Its parameters, defaults included.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Whom it hits.
    #[must_use]
    pub fn target(&self) -> NodeTarget {
        self.build().target()
    }

    /// The fault that does it.
    ///
    /// # Panics
    /// Never: the parameters were tried when the specification was made.
    #[must_use]
    pub fn build(&self) -> Box<dyn Fault> {
        (self.kind.build)(&self.parameters).expect("it was built once before")
    }
}

impl Serialize for Spec {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        json!({ self.kind.name: self.parameters.0 }).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let all = Map::<String, Value>::deserialize(from)?;
        let mut pairs = all.iter();
        match (pairs.next(), pairs.next()) {
            (Some((kind, parameters)), None) => Self::new(kind, parameters).map_err(D::Error::custom),
            _ => Err(D::Error::custom("a fault is one key, its kind, with a table of parameters")),
        }
    }
}

/// The parameters of one fault, by name. Each accessor says what does not fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(Map<String, Value>);

/// What does not fit, as a sentence that begins with the parameter's name.
type Read<T> = Result<T, String>;

impl Parameters {
    /// As JSON.
    #[must_use]
    pub const fn values(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Any value; `None`: left out.
    #[must_use]
    pub fn any(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Whether it was given (or has a default).
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The nodes that `name` targets.
    ///
    /// # Errors
    /// When it is no target, or the clients.
    pub fn target(&self, name: &str) -> Read<NodeTarget> {
        match self.party(name)? {
            NodeTarget::Clients => Err(format!("{name}: clients are hit by faults of the network only")),
            target => Ok(target),
        }
    }

    /// Whose connections `name` means: those of nodes, or of the clients.
    ///
    /// # Errors
    /// When it is neither.
    pub fn party(&self, name: &str) -> Read<NodeTarget> {
        self.text(name)?.parse().map_err(|why| format!("{name}: {why}"))
    }

    /// A duration.
    ///
    /// # Errors
    /// When it is missing, negative or beyond all measure.
    pub fn duration(&self, name: &str) -> Read<Duration> {
        let seconds = self.number(name)?;
        Duration::try_from_secs_f64(seconds).map_err(|why| format!("{name}: {why}"))
    }

    /// A number: seconds of a shift, a share.
    ///
    /// # Errors
    /// When it is missing or no number.
    pub fn number(&self, name: &str) -> Read<f64> {
        self.needed(name)?.as_f64().ok_or_else(|| format!("{name}: must be a number"))
    }

    /// A whole number: a count, bytes.
    ///
    /// # Errors
    /// When it is missing or no whole number.
    pub fn count(&self, name: &str) -> Read<u64> {
        self.needed(name)?.as_u64().ok_or_else(|| format!("{name}: must be a whole number"))
    }

    /// A text.
    ///
    /// # Errors
    /// When it is missing or no text.
    pub fn text(&self, name: &str) -> Read<String> {
        let value = self.needed(name)?;
        value.as_str().map(str::to_owned).ok_or_else(|| format!("{name}: must be a text"))
    }

    /// A list of texts; empty when left out.
    ///
    /// # Errors
    /// When it is something else.
    pub fn texts(&self, name: &str) -> Read<Vec<String>> {
        let Some(value) = self.any(name) else {
            return Ok(Vec::new());
        };
        let wrong = || format!("{name}: must be a list of texts");
        let items = value.as_array().ok_or_else(wrong)?;
        items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
    }

    /// A switch.
    ///
    /// # Errors
    /// When it is missing or neither true nor false.
    pub fn flag(&self, name: &str) -> Read<bool> {
        self.needed(name)?.as_bool().ok_or_else(|| format!("{name}: must be true or false"))
    }

    fn needed(&self, name: &str) -> Read<&Value> {
        self.any(name).ok_or_else(|| format!("{name}: must be given"))
    }
}
