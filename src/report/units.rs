//! Numbers for people: three digits are enough, and the unit is always there.

/// Seconds: `850 ms`, `5.83 s`, `2 m 05 s`.
#[must_use]
pub fn duration_s(seconds: f64) -> String {
    let size = seconds.abs();
    if size == 0.0 {
        "0 s".into()
    } else if size < 0.9995 {
        format!("{} ms", three_digits(seconds * 1e3))
    } else if size < 120.0 {
        format!("{} s", three_digits(seconds))
    } else if size < 7_200.0 {
        // Rounded as a whole: 179.6 s are three minutes, not "2 m 60 s".
        let whole = seconds.round();
        format!("{:.0} m {:02.0} s", (whole / 60.0).trunc(), (whole % 60.0).abs())
    } else {
        let minutes = (seconds / 60.0).round();
        format!("{:.0} h {:02.0} m", (minutes / 60.0).trunc(), (minutes % 60.0).abs())
    }
}

/// Microseconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub fn duration_us(us: u64) -> String {
    if us < 1_000 { format!("{us} us") } else { duration_s(us as f64 / 1e6) }
}

/// Seconds, always to the millisecond.
#[must_use]
pub fn duration_ms(seconds: f64) -> String {
    format!("{seconds:.3} s")
}

/// A whole number with thousands apart: `12,345`.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Operations per second: `1,234/s`, `12.3/s`.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for people")]
pub fn per_second(ops_s: f64) -> String {
    if ops_s >= 999.5 {
        format!("{}/s", count(ops_s.round() as u64))
    } else {
        format!("{}/s", three_digits(ops_s))
    }
}

/// Bytes in binary units: `1.2 GiB`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub fn bytes(n: u64) -> String {
    let mut size = n as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1_000.0 {
            return format!("{} {unit}", three_digits(size));
        }
        size /= 1_024.0;
    }
    format!("{} TiB", three_digits(size))
}

fn three_digits(x: f64) -> String {
    let size = x.abs();
    if size >= 99.95 {
        format!("{x:.0}")
    } else if size >= 9.995 {
        format!("{x:.1}")
    } else {
        format!("{x:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(duration_s(5.8312), "5.83 s");
        assert_eq!(duration_s(0.0), "0 s");
        assert_eq!(duration_s(0.9996), "1.00 s");
        assert_eq!(duration_s(125.0), "2 m 05 s");
        assert_eq!(duration_s(179.6), "3 m 00 s");
        assert_eq!(duration_s(9_000.0), "2 h 30 m");
        assert_eq!(duration_s(10_790.0), "3 h 00 m");
        assert_eq!(duration_us(850), "850 us");
        assert_eq!(duration_us(12_345), "12.3 ms");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(bytes(2_139_095_040), "1.99 GiB");
    }
}
