//! A fault from the words of a command line.

use faults::{Takes, catalog};
use serde_json::{Map, Value};
use toml::de::DeTable;

use super::FaultSpec;
use super::fault::parameter_value;
use super::words::Names;

/// This kind with these parameters, written as in a scenario but for the quotes.
///
/// # Errors
/// Everything that does not fit, a line each.
pub fn fault_spec(kind: &str, given: &[(String, String)]) -> Result<FaultSpec, String> {
    let kind = catalog::kind(kind).ok_or_else(|| format!("no fault is called {kind:?}"))?;
    let names: Vec<_> = kind.parameters.iter().map(|parameter| parameter.name).collect();
    let (mut values, mut problems) = (Map::new(), Vec::new());
    for (name, text) in given {
        let Some(parameter) = kind.parameters.iter().find(|parameter| parameter.name == *name) else {
            let unknown = Names { what: "parameter", now: &names, later: &[] }.unknown(name, "");
            problems.push(format!("{}: {} ({})", kind.name, unknown.message, unknown.hint));
            continue;
        };
        match value(parameter.takes, text) {
            Ok(value) => drop(values.insert(name.clone(), value)),
            Err(why) => problems.push(format!("{name}={text}: {why}")),
        }
    }
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    FaultSpec::new(kind.name, &Value::Object(values))
}

fn value(takes: Takes, text: &str) -> Result<Value, String> {
    let quoted = || toml_edit::Value::from(text).to_string();
    let written = match takes {
        Takes::Target | Takes::Party | Takes::Text | Takes::Choice(_) => quoted(),
        _ if text.parse::<toml_edit::Value>().is_ok() => text.to_owned(),
        Takes::Texts => {
            let items: toml_edit::Array = text.split(',').map(str::trim).collect();
            items.to_string()
        }
        // `30s` is no TOML, but nobody wants to type quotes inside of quotes.
        _ => quoted(),
    };
    let document = format!("value = {written}");
    let table = DeTable::parse(&document).map_err(|error| error.message().to_owned())?;
    let value = table.get_ref().get("value").ok_or("no value")?;
    parameter_value(takes, value.get_ref()).map_err(|refusal| match refusal.hint {
        Some(hint) => format!("{} ({hint})", refusal.message),
        None => refusal.message,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(kind: &str, given: &[(&str, &str)]) -> Result<Value, String> {
        let given: Vec<_> =
            given.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        fault_spec(kind, &given).map(|spec| json!(spec.parameters().values()))
    }

    #[test]
    fn words_become_what_the_kind_takes() {
        let kill = spec("kill", &[("target", "node2"), ("restart_after", "1m 30s")]).unwrap();
        assert_eq!((&kill["target"], &kill["restart_after"]), (&json!("node2"), &json!(90.0)));
        let fail = spec("fail_command", &[("commands", "insert, update"), ("error_code", "10107")]).unwrap();
        assert_eq!((&fail["commands"], &fail["error_code"]), (&json!(["insert", "update"]), &json!(10107)));
        let set = spec("set_parameter", &[("name", "x"), ("value", "true")]).unwrap();
        assert_eq!((&set["name"], &set["value"]), (&json!("x"), &json!(true)));
    }

    #[test]
    fn everything_that_does_not_fit_is_said_at_once() {
        let why = spec("kill", &[("tarjet", "primary"), ("restart_after", "soon")]).unwrap_err();
        assert!(why.contains("tarjet") && why.contains("target") && why.contains("soon"), "{why}");
    }
}
