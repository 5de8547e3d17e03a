//! How a mongod is started.

use std::path::Path;

use faults::LaunchOptions;

use super::node::Settings;
use crate::scenario::Part;

/// The command line of a mongod that listens on this port; `socket`: on a Unix domain socket in its folder, too.
pub fn mongod(s: &Settings, log: &Path, port: u16, socket: bool, launch: &LaunchOptions) -> Vec<String> {
    #[expect(clippy::cast_precision_loss, reason = "a cache size; mongod takes a fraction of GB")]
    let cache_gib = s.cache_bytes as f64 / f64::from(1 << 30);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut all: Vec<String> = vec!["--port".into(), port.to_string()];
    all.extend(["--bind_ip".into(), "127.0.0.1".into()]);
    if socket {
        all.extend(["--unixSocketPrefix".into(), text(&s.dir)]);
    } else {
        all.push("--nounixsocket".into());
    }
    all.extend(["--dbpath".into(), text(&s.dir.join("db"))]);
    all.extend(["--logpath".into(), text(log), "--logappend".into()]);
    all.extend(["--wiredTigerCacheSizeGB".into(), format!("{cache_gib:.3}")]);
    match s.part {
        Part::Config => all.push("--configsvr".into()),
        Part::Shard | Part::Engine => all.push("--shardsvr".into()),
        Part::Data | Part::Mongos => {}
    }
    if let Some(set) = &s.replica_set {
        all.extend(["--replSet".into(), set.clone()]);
        all.extend(["--oplogSize".into(), (s.oplog_bytes >> 20).to_string()]);
    }
    let mut parameters = s.parameters.clone();
    parameters.extend(launch.parameters.clone());
    for (name, value) in parameters {
        all.extend(["--setParameter".into(), format!("{name}={value}")]);
    }
    all.extend(launch.arguments.iter().cloned());
    all
}
