//! How many processors this process may use.

use std::path::{Path, PathBuf};

/// Processors of the machine that the process may run on, or what the quota of its control groups leaves of
/// them; a part of one counts.
#[must_use]
pub fn cores() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let known = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    let allowed = allowed(&status).unwrap_or(known);
    quotas(&groups, Path::new("/sys/fs/cgroup")).fold(allowed, f64::min)
}

/// Members of `Cpus_allowed_list`, which reads like `0-3,8`.
fn allowed(status: &str) -> Option<f64> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let members = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(f64::from(last.checked_sub(first)? + 1))
    });
    members.sum()
}

/// Processors by the quota of each group that the process is in, versions 1 and 2.
fn quotas(groups: &str, root: &Path) -> impl Iterator<Item = f64> {
    let places: Vec<PathBuf> = groups.lines().flat_map(|line| places(line, root)).collect();
    places.into_iter().filter_map(|place| quota(&place))
}

/// The folders of a line `0::/a/b` or `1:cpu,cpuacct:/a/b`, from the innermost group to the root.
fn places(line: &str, root: &Path) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let base = match controllers {
        "" => root.to_owned(),
        list if list.split(',').any(|name| name == "cpu") => root.join(list),
        _ => return Vec::new(),
    };
    let inner = base.join(path.trim_start_matches('/'));
    inner.ancestors().take_while(|place| place.starts_with(&base)).map(Path::to_owned).collect()
}

fn quota(place: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(place.join(name)).ok();
    let text = match (read("cpu.max"), read("cpu.cfs_quota_us"), read("cpu.cfs_period_us")) {
        (Some(max), ..) => max,
        (None, Some(quota), Some(period)) => format!("{} {}", quota.trim(), period.trim()),
        _ => return None,
    };
    // `max` and -1: no quota.
    let mut numbers = text.split_whitespace();
    let quota: f64 = numbers.next()?.parse().ok().filter(|quota| *quota > 0.0)?;
    let period: f64 = numbers.next()?.parse().ok().filter(|period| *period > 0.0)?;
    Some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_is_counted() {
        assert_eq!(allowed("Name:\tx\nCpus_allowed_list:\t0-3,8\n"), Some(5.0));
        assert_eq!(allowed("Cpus_allowed_list:\t7\n"), Some(1.0));
        assert_eq!(allowed("Name:\tx\n"), None);
        assert!(cores() > 0.0);
    }

    #[test]
    fn the_tightest_quota_of_any_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("a/cpu.max", "150000 100000\n");
        put("a/b/cpu.max", "max 100000\n");
        put("cpu,cpuacct/c/cpu.cfs_quota_us", "-1\n");
        put("cpu,cpuacct/c/cpu.cfs_period_us", "100000\n");
        let of = |groups: &str| quotas(groups, root.path()).collect::<Vec<_>>();
        assert_eq!(of("0::/a/b\n"), [1.5]);
        assert_eq!(of("1:cpu,cpuacct:/c\n4:memory:/a\n"), [0.0; 0]);
        put("cpu,cpuacct/c/cpu.cfs_quota_us", "50000\n");
        assert_eq!(of("1:cpu,cpuacct:/c\n"), [0.5]);
    }
}
