//! Connection strings: refused for a reason, without ever repeating a part that may be secret.
//!
//! The driver's own parser has the last word, but its messages may quote the string, so they are
//! not shown.

use mongodb::options::ConnectionString;

use super::table::Refusal;

/// Options that would falsify the measurement, and why.
const REFUSED: [(&str, &str); 2] = [
    (
        "socketTimeoutMS",
        "the driver would cut slow connections during a fault, so the outage would be its own; \
         \"deadline\" of a workload bounds each operation",
    ),
    (
        "timeoutMS",
        "the driver would give up before the outcome is known; \"deadline\" of a workload bounds each \
         operation",
    ),
];

const ENCODE: &str = "percent-encode it: @ is %40, / is %2F, : is %3A, % is %25";

/// Whether the tester can use it.
pub(super) fn check(uri: &str) -> Result<(), Refusal> {
    let Some(rest) = uri.strip_prefix("mongodb://").or_else(|| uri.strip_prefix("mongodb+srv://")) else {
        return Err(Refusal::new("a connection string begins with mongodb:// or mongodb+srv://"));
    };
    check_user_info(rest)?;
    let (_, options) = rest.split_once('?').unwrap_or((rest, ""));
    for (name, value) in options.split('&').filter_map(|option| option.split_once('=')) {
        check_option(name, value)?;
    }
    ConnectionString::parse(uri).map(drop).map_err(|_| unreadable(options))
}

/// What our own wire protocol client would have to know for this connection string, and does not.
pub(super) fn beyond_wire(uri: &str) -> Option<&'static str> {
    let rest = match uri.split_once("://") {
        Some(("mongodb", rest)) => rest,
        _ => return Some("mongodb+srv addresses"),
    };
    let (before, options) = rest.split_once('?').unwrap_or((rest, ""));
    let by_option =
        options.split('&').filter_map(|option| option.split_once('=')).find_map(|(name, value)| {
            let (name, is_off) = (name.to_ascii_lowercase(), value.eq_ignore_ascii_case("false"));
            match name.as_str() {
                "authmechanism" => Some("authentication"),
                "tls" | "ssl" | "loadbalanced" if is_off => None,
                "loadbalanced" => Some("load balancers"),
                "compressors" => Some("compression"),
                "proxyhost" => Some("proxies"),
                name if name.starts_with("tls") || name == "ssl" => Some("TLS"),
                _ => None,
            }
        });
    match before {
        _ if before.contains('@') => Some("authentication"),
        _ if before.to_ascii_lowercase().contains("%2f") => Some("Unix domain sockets"),
        _ => by_option,
    }
}

/// The string without user, password and options: scheme and hosts only.
pub(super) fn without_secrets(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("mongodb", uri));
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    format!("{scheme}://{}/", hosts.split('/').next().unwrap_or(hosts))
}

/// User and password must be percent-encoded, or the string means something else than it seems to.
fn check_user_info(rest: &str) -> Result<(), Refusal> {
    let before_options = rest.split('?').next().unwrap_or(rest);
    let Some((user_info, _)) = before_options.rsplit_once('@') else {
        return check_lost_user_info(rest, before_options);
    };
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    for (what, text) in [("user name", user), ("password", password)] {
        let bad = |c: char| matches!(c, '@' | '/' | ':' | '?' | '#' | '[' | ']') || c.is_whitespace();
        if text.contains(bad) || !percent_signs_are_codes(text) {
            return Err(Refusal::new(format!("the {what} holds a character that needs a code")).hint(ENCODE));
        }
    }
    Ok(())
}

/// `user:pa?ss@host`: everything from the `?` on looks like options, the rest like a host with a port.
fn check_lost_user_info(rest: &str, before_options: &str) -> Result<(), Refusal> {
    let hosts = before_options.split('/').next().unwrap_or(before_options);
    let odd_port =
        |host: &str| host.rsplit_once(':').is_some_and(|(_, port)| !port.bytes().all(|b| b.is_ascii_digit()));
    if rest.contains('@') && hosts.split(',').any(odd_port) {
        return Err(Refusal::new("the password holds a character that needs a code").hint(ENCODE));
    }
    Ok(())
}

fn percent_signs_are_codes(text: &str) -> bool {
    let code = |after: &str| after.len() >= 2 && after.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    text.split('%').skip(1).all(code)
}

fn check_option(name: &str, value: &str) -> Result<(), Refusal> {
    if name.eq_ignore_ascii_case("w") && value.trim() == "0" {
        return Err(Refusal::new("w=0 is refused").hint(super::workload::UNACKNOWLEDGED));
    }
    match REFUSED.iter().find(|(refused, _)| refused.eq_ignore_ascii_case(name)) {
        Some((refused, why)) => Err(Refusal::new(format!("{refused} is refused")).hint(*why)),
        None => Ok(()),
    }
}

/// Names the options that the driver cannot take even alone. Names only: values may be secret.
fn unreadable(options: &str) -> Refusal {
    let alone = |option: &&str| ConnectionString::parse(format!("mongodb://host/?{option}")).is_err();
    let known = |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    let suspects: Vec<&str> = options
        .split('&')
        .filter(|option| option.contains('=') && alone(option))
        .filter_map(|option| option.split('=').next())
        .filter(known)
        .collect();
    let refusal = Refusal::new("the driver cannot read this connection string");
    if suspects.is_empty() {
        return refusal.hint(
            "it looks like mongodb://user:password@host:27017,host2:27017/?replicaSet=rs0, with user and \
             password percent-encoded",
        );
    }
    refusal.hint(format!("look at {}", suspects.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(uri: &str) -> String {
        let refusal = check(uri).unwrap_err();
        format!("{}; {}", refusal.message, refusal.hint.unwrap_or_default())
    }

    #[test]
    fn usable() {
        for uri in [
            "mongodb://localhost",
            "mongodb://h1:27017,h2:27018/admin?replicaSet=rs0",
            "mongodb://user:p%40ss@h1,h2/?w=1&retryWrites=false",
            "mongodb+srv://user:secret@cluster.example.org/?appName=a@b",
            "mongodb://[::1]:27017/",
        ] {
            assert_eq!(check(uri), Ok(()), "{uri}");
        }
    }

    #[test]
    fn needs_codes() {
        for uri in [
            "mongodb://user:hun@ter@h1",
            "mongodb://user:hun/ter@h1",
            "mongodb://user:hun:ter@h1",
            "mongodb://user:hun%ter@h1",
            "mongodb://user:hun%2@h1",
            "mongodb://user:hun?ter@h1",
            "mongodb://us/er:hunter@h1",
        ] {
            let said = refusal(uri);
            assert!(said.contains("percent-encode") && said.contains("%40"), "{uri}: {said}");
            assert!(!said.contains("hun") && !said.contains("ter@"), "{uri}: {said}");
        }
    }

    #[test]
    fn falsifying_options() {
        assert!(refusal("mongodb://h/?w=0").contains("cannot be known"));
        assert!(
            refusal("mongodb://h/?a=b&SOCKETTIMEOUTMS=5").contains("socketTimeoutMS is refused; the driver")
        );
        assert!(refusal("mongodb://h/?timeoutMS=5").contains("timeoutMS is refused"));
    }

    #[test]
    fn what_the_driver_cannot_read() {
        assert!(refusal("http://h").contains("begins with mongodb://"));
        assert!(refusal("mongodb://").contains("it looks like"));
        assert!(refusal("mongodb://h:99999/").contains("it looks like"));
        let said = refusal("mongodb://user:hunter@h/?maxPoolSize=hunter2");
        assert!(said.contains("look at maxPoolSize") && !said.contains("hunter"), "{said}");
    }

    #[test]
    fn what_our_own_client_cannot_do() {
        let cases = [
            ("mongodb://user:secret@h", Some("authentication")),
            ("mongodb://h/?authMechanism=MONGODB-X509&tls=true", Some("authentication")),
            ("mongodb+srv://h", Some("mongodb+srv addresses")),
            ("mongodb://h/?tls=true", Some("TLS")),
            ("mongodb://h/?SSL=true", Some("TLS")),
            ("mongodb://h/?tlsCAFile=a.pem", Some("TLS")),
            ("mongodb://h/?compressors=zstd", Some("compression")),
            ("mongodb://h/?loadBalanced=true", Some("load balancers")),
            ("mongodb://%2Ftmp%2Fmongodb-1.sock", Some("Unix domain sockets")),
            ("mongodb://h1,h2:5/?replicaSet=rs0&tls=false&appName=a@b&retryWrites=false", None),
            ("mongodb://[::1]:27017", None),
        ];
        for (uri, what) in cases {
            assert_eq!(beyond_wire(uri), what, "{uri}");
        }
    }

    #[test]
    fn what_may_be_shown() {
        for (uri, shown) in [
            ("mongodb://user:secret@h1:1,h2/db?tlsCertificateKeyFilePassword=secret", "mongodb://h1:1,h2/"),
            ("mongodb+srv://h", "mongodb+srv://h/"),
            ("mongodb://user:sec/ret@h", "mongodb://h/"),
        ] {
            assert_eq!(without_secrets(uri), shown);
            assert_eq!(check(shown), Ok(()));
        }
    }
}
