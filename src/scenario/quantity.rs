//! Durations, counts, sizes and rates as people write them: read exactly, or refused.
//!
//! Knows only text, so that the command line reads its options by the same rules as the scenario.

use std::time::Duration;

/// A text that is not the quantity it should be. Displays as one sentence with what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {accepted}")]
pub struct Unreadable {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub accepted: &'static str,
}

impl Unreadable {
    /// The reason may quote a part of the text, so a hidden text has none.
    fn new(text: &str, what: &str, why: &str, accepted: &'static str) -> Self {
        let why = if is_secret(text) { String::new() } else { format!(" ({why})") };
        Self { message: format!("{} is not {what}{why}", quoted(text)), accepted }
    }
}

/// What a duration looks like.
pub const DURATION: &str = r#"write for example "90s", "10m" or "2h 30m""#;
/// What a count looks like.
pub const COUNT: &str = r#"write a whole number: 1_000_000, "1e6" or "100M""#;
/// What a size looks like.
pub const SIZE: &str = r#"write for example "512MiB" or "2GiB" (B, kB, KiB, MB, MiB, GB, GiB, TB, TiB)"#;
/// What a rate looks like.
pub const RATE: &str = r#"write for example "500/s" or "30/m" (per s, m or h)"#;

/// Longer than any run; keeps sums of durations and clock readings far from overflow.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// One operation a nanosecond: what the clock can tell apart.
pub(super) const FASTEST_OPS_S: f64 = 1e6;
/// One operation an hour: anything slower is no load.
const SLOWEST_OPS_S: f64 = 1.0 / 3600.0;

/// Reads a duration as `humantime` does: `90s`, `2h 30m`, `0.5s`.
///
/// # Errors
/// No unit, an unknown unit, finer than a nanosecond, longer than ten years. Months and years are
/// refused because they have no exact length, and so that nobody gets months for `5M`.
pub fn duration(text: &str) -> Result<Duration, Unreadable> {
    let refuse = |why: &str| Err(Unreadable::new(text, "a duration", why, DURATION));
    if text.trim_start().starts_with('-') {
        return refuse("negative");
    }
    if let Some(unit) = inexact_unit(text) {
        return refuse(&format!("{unit:?} has no exact length; minutes are written \"m\""));
    }
    match humantime::parse_duration(text) {
        Ok(duration) if duration > LONGEST => refuse("longer than ten years"),
        Ok(duration) => Ok(duration),
        Err(humantime::DurationError::UnknownUnit { unit, .. }) if unit.is_empty() => refuse("no unit"),
        Err(humantime::DurationError::UnknownUnit { unit, .. }) => {
            refuse(&format!("unknown time unit {unit:?}"))
        }
        Err(error) => refuse(&error.to_string()),
    }
}

fn inexact_unit(text: &str) -> Option<&str> {
    const UNITS: [&str; 8] = ["M", "month", "months", "y", "yr", "yrs", "year", "years"];
    text.split(|c: char| !c.is_alphabetic()).find(|word| UNITS.contains(word))
}

/// Reads a whole number: `1_000_000`, `1e6`, `1.5M`; the suffixes are k, M and G (thousands).
///
/// # Errors
/// Not a number, an unknown suffix, not whole, negative, above 2^64 - 1.
pub fn count(text: &str) -> Result<u64, Unreadable> {
    scaled(text, "a count", COUNT, |suffix| match suffix {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        _ => None,
    })
}

/// Reads a size in bytes: `512MiB`, `2GB`. The unit must be there.
///
/// # Errors
/// Not a number, an unknown unit or none, not whole bytes, negative, above 2^64 - 1.
pub fn size(text: &str) -> Result<u64, Unreadable> {
    scaled(text, "a size", SIZE, |suffix| {
        Some(match suffix {
            "B" => 1,
            "kB" | "KB" => 1_000,
            "KiB" => 1 << 10,
            "MB" => 1_000_000,
            "MiB" => 1 << 20,
            "GB" => 1_000_000_000,
            "GiB" => 1 << 30,
            "TB" => 1_000_000_000_000,
            "TiB" => 1 << 40,
            _ => return None,
        })
    })
}

/// Reads a rate in operations per second: `500/s`, `30/m`, `1.5k/s`.
///
/// # Errors
/// No unit of time, not a number, zero, negative, below one an hour or above one a nanosecond.
pub fn rate(text: &str) -> Result<f64, Unreadable> {
    let refuse = |why: &str| Err(Unreadable::new(text, "a rate", why, RATE));
    let Some((amount, per)) = text.split_once('/') else {
        return refuse("no unit of time");
    };
    let seconds = match per.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return refuse(&format!("unknown time unit {other:?}")),
    };
    let (number, suffix) = split_suffix(amount);
    if let Err(why) = Decimal::parse(number) {
        return refuse(why);
    }
    let factor = match suffix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        other => return refuse(&format!("unknown suffix {other:?}")),
    };
    let Ok(number) = number.replace('_', "").parse::<f64>() else {
        return refuse("not a number");
    };
    let ops_s = number * factor / seconds;
    if number == 0.0 {
        return refuse("no operation would ever start");
    }
    if !(SLOWEST_OPS_S..=FASTEST_OPS_S).contains(&ops_s) {
        return refuse("outside of 1/h to 1,000,000/s");
    }
    Ok(ops_s)
}

/// A text of the user, in quotes; hidden when it may be a connection string with a password.
pub(super) fn quoted(text: &str) -> String {
    if is_secret(text) { "[hidden]".into() } else { format!("{text:?}") }
}

/// Whether a text may hold a password.
pub(super) fn is_secret(text: &str) -> bool {
    text.contains("://") || text.contains('@')
}

fn scaled(
    text: &str,
    what: &str,
    accepted: &'static str,
    unit: impl Fn(&str) -> Option<u64>,
) -> Result<u64, Unreadable> {
    let (number, suffix) = split_suffix(text);
    let read = || {
        let decimal = Decimal::parse(number)?;
        let unit = unit(suffix).ok_or(if suffix.is_empty() { "no unit" } else { "unknown unit" })?;
        decimal.times(unit)
    };
    read().map_err(|why| Unreadable::new(text, what, why, accepted))
}

/// `512 MiB` into `512` and `MiB`.
fn split_suffix(text: &str) -> (&str, &str) {
    let text = text.trim();
    let number = text.trim_end_matches(char::is_alphabetic);
    (number.trim_end(), &text[number.len()..])
}

/// `digits * 10^exponent`, nothing rounded.
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// Reads `1_000`, `1.5`, `1e6`. Underscores only between digits, as in TOML.
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text.starts_with('-') {
            return Err("negative");
        }
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().map_err(|_| "not a number")?;
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, plain_digits(fraction)?),
            None => (mantissa, String::new()),
        };
        let digits = format!("{}{fraction}", plain_digits(whole)?).parse().map_err(|_| "too large")?;
        let places = i32::try_from(fraction.len()).map_err(|_| "too long")?;
        Ok(Self { digits, exponent: exponent.checked_sub(places).ok_or("too small")? })
    }

    /// This many units, if that is a whole number that fits.
    fn times(&self, unit: u64) -> Result<u64, &'static str> {
        let power = 10_u128.checked_pow(self.exponent.unsigned_abs());
        let total = self.digits.checked_mul(u128::from(unit)).ok_or("too large")?;
        let exact = if self.exponent >= 0 {
            power.and_then(|power| total.checked_mul(power)).ok_or("too large")?
        } else {
            let power = power.filter(|power| total % power == 0).ok_or("not whole")?;
            total / power
        };
        u64::try_from(exact).map_err(|_| "too large")
    }
}

fn plain_digits(text: &str) -> Result<String, &'static str> {
    let plausible = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '_');
    if !plausible || text.starts_with('_') || text.ends_with('_') || text.contains("__") {
        return Err("not a number");
    }
    Ok(text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        let s = Duration::from_secs;
        for (text, expected) in [
            ("90s", s(90)),
            ("2h 30m", s(9000)),
            ("2h30m", s(9000)),
            ("0s", s(0)),
            ("0.5s", Duration::from_millis(500)),
            ("20ms", Duration::from_millis(20)),
            ("7d", s(604_800)),
            ("3000000000ms", s(3_000_000)),
        ] {
            assert_eq!(duration(text).unwrap(), expected, "{text}");
        }
        for (text, why) in [
            ("10", "no unit"),
            ("10x", r#"unknown time unit "x""#),
            ("", "value was empty"),
            ("-5s", "negative"),
            ("soon", "expected number"),
            ("0.1ns", "without a lack of precision"),
            ("5M", "minutes are written"),
            ("1year", "no exact length"),
            ("4000d", "longer than ten years"),
        ] {
            let error = duration(text).unwrap_err();
            assert!(error.message.contains(why), "{text}: {error}");
            assert_eq!(error.accepted, DURATION);
        }
    }

    #[test]
    fn counts_are_exact() {
        for (text, expected) in [
            ("0", 0),
            ("1_000_000", 1_000_000),
            ("1e6", 1_000_000),
            ("1.5e3", 1500),
            ("10e-1", 1),
            ("100M", 100_000_000),
            ("1.5M", 1_500_000),
            ("3000000000", 3_000_000_000),
            ("18446744073709551615", u64::MAX),
            ("4.0", 4),
        ] {
            assert_eq!(count(text).unwrap(), expected, "{text}");
        }
        for (text, why) in [
            ("1.5", "not whole"),
            ("18446744073709551616", "too large"),
            ("1e99", "too large"),
            ("1e-99", "not whole"),
            ("-1", "negative"),
            ("1_", "not a number"),
            ("__1", "not a number"),
            ("", "not a number"),
            ("many", "not a number"),
            ("10x", "unknown unit"),
            ("1e", "unknown unit"),
            ("nan", "not a number"),
        ] {
            let error = count(text).unwrap_err();
            assert!(error.message.contains(why), "{text}: {error}");
            assert_eq!(error.accepted, COUNT);
        }
    }

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!(size("512MiB").unwrap(), 512 << 20);
        assert_eq!(size("1.5 GiB").unwrap(), 3 << 29);
        assert_eq!(size("2GB").unwrap(), 2_000_000_000);
        assert!(size("512").unwrap_err().message.contains("no unit"));
        assert!(size("512M").unwrap_err().message.contains("unknown unit"));
        assert!(size("0.3B").unwrap_err().message.contains("not whole"));
    }

    #[test]
    fn rates_need_a_time() {
        assert_eq!(rate("500/s"), Ok(500.0));
        assert_eq!(rate("30/m"), Ok(0.5));
        assert_eq!(rate("1.5k/s"), Ok(1500.0));
        assert_eq!(rate("0.5/s"), Ok(0.5));
        for (text, why) in [
            ("500", "no unit of time"),
            ("0/s", "no operation"),
            ("-5/s", "negative"),
            ("5/d", "unknown time unit"),
            ("x/s", "not a number"),
            ("inf/s", "not a number"),
            ("1e300/s", "outside"),
            ("1e-9/s", "outside"),
        ] {
            assert!(rate(text).unwrap_err().message.contains(why), "{text}: {:?}", rate(text));
        }
    }

    #[test]
    fn a_connection_string_is_never_repeated() {
        let text = "mongodb://user:secret@host";
        for error in [duration(text).unwrap_err(), count(text).unwrap_err(), rate(text).unwrap_err()] {
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn every_duration_survives_being_written(nanoseconds in 0..2_000_000_000_000_000_u64) {
            let expected = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(duration(&humantime::format_duration(expected).to_string()), Ok(expected));
        }

        #[test]
        fn every_count_survives_being_written(n: u64) {
            prop_assert_eq!(count(&n.to_string()), Ok(n));
        }

        #[test]
        fn suffixes_and_exponents_multiply(n in 0..10_000_000_000_u64, e in 0..9_u32) {
            prop_assert_eq!(count(&format!("{n}e{e}")), Ok(n * 10_u64.pow(e)));
            prop_assert_eq!(count(&format!("{n}M")), Ok(n * 1_000_000));
            prop_assert_eq!(size(&format!("{}KiB", n)), Ok(n * 1024));
        }

        #[test]
        fn no_text_is_too_strange(text in ".*") {
            // Refused or read, but never a panic, and never a value from something that is no number.
            let digits = text.chars().any(|c| c.is_ascii_digit());
            prop_assert!(digits || count(&text).is_err());
            prop_assert!(digits || size(&text).is_err());
            prop_assert!(digits || rate(&text).is_err());
            prop_assert!(digits || duration(&text).is_err());
        }
    }
}
