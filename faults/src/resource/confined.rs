//! What the faults with a control group have in common: the server is moved into a group of its own, whose limits
//! are set first, and moved back to where it was.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::cgroup::{Controller, Group, Hierarchy};
use crate::{Evidence, FaultError, Memo, Proof, Site, facts};

/// A limit as the file of a group takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name of the file.
    pub file: &'static str,
    /// What is written while the fault holds.
    pub on: String,
    /// What takes it away again.
    pub off: String,
}

impl Limit {
    /// A limit.
    #[must_use]
    pub fn new(file: &'static str, on: impl ToString, off: impl ToString) -> Self {
        Self { file, on: on.to_string(), off: off.to_string() }
    }
}

/// The hierarchy of a controller, or why the fault is skipped.
pub fn hierarchy(site: &Site<'_>, controller: Controller) -> Result<Hierarchy, FaultError> {
    Hierarchy::find(controller).map_err(|why| site.unavailable(why))
}

/// Everything that [`release`] will need: which process, which group, where the process was, and what takes the
/// limits away.
pub fn memo(
    site: &Site<'_>,
    on: &Hierarchy,
    server: &Proof,
    limits: &[Limit],
) -> Result<Memo, FaultError> {
    let former = on.group_of(server.pid);
    let former = former.ok_or_else(|| site.unavailable("its control group is out of sight (a container?)"))?;
    if Group::ours(&former).is_some() {
        return Err(site.nothing_to_do("is in the control group of another fault"));
    }
    let mut memo = server.memo();
    memo.extend(facts([
        ("group", json!(on.group(server.pid, server.start_ticks).folder().display().to_string())),
        ("former_group", json!(former.display().to_string())),
        ("on", limits.iter().map(|l| json!([l.file, l.on])).collect()),
        ("off", limits.iter().map(|l| json!([l.file, l.off])).collect()),
    ]));
    Ok(memo)
}

/// Makes the group, sets its limits, moves the server into it.
pub fn confine(site: &Site<'_>, on: &Hierarchy, memo: &Memo) -> Result<Evidence, FaultError> {
    let failed = |error| site.failed("limit", error);
    let (group, server) = (group(site, memo)?, Proof::noted(memo));
    let server = server.filter(Proof::holds).ok_or_else(|| site.nothing_to_do("has ended meanwhile"))?;
    on.create(&group).map_err(failed)?;
    for (file, value) in pairs(memo, "on") {
        group.write(&file, &value).map_err(failed)?;
    }
    group.take(server.pid).map_err(failed)?;
    Ok(facts([("pid", json!(server.pid)), ("group", memo["group"].clone()), ("limits", memo["on"].clone())]))
}

/// Whether the server is in its group, as the group tells.
pub fn is_confined(site: &Site<'_>, memo: &Memo) -> Result<Group, FaultError> {
    let group = group(site, memo)?;
    let pid = Proof::noted(memo).map_or(0, |server| server.pid);
    if group.holds(pid) { Ok(group) } else { Err(site.no_effect(Duration::ZERO, "it is not in its control group")) }
}

/// Takes the limits away, moves everything back and removes the group.
pub async fn release(site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
    let group = group(site, memo)?;
    if !group.folder().exists() {
        return Ok(facts([("group_gone", json!(true))]));
    }
    // First: who waits for memory inside of the group goes on only when there is some.
    for (file, value) in pairs(memo, "off") {
        group.write(&file, &value).map_err(|e| site.failed("take the limit from", e))?;
    }
    let former = PathBuf::from(memo["former_group"].as_str().unwrap_or_default());
    group.dissolve(&former).await.map_err(|e| site.failed("take the control group from", e))?;
    Ok(facts([("group_gone", json!(true)), ("back_in", memo["former_group"].clone())]))
}

/// The group is gone and the server is where it was, or has ended.
pub async fn is_released(
    site: &Site<'_>,
    controller: Controller,
    memo: &Memo,
    deadline: Duration,
) -> Result<Evidence, FaultError> {
    let group = group(site, memo)?;
    let server = Proof::noted(memo);
    site.until(deadline, "it is still in its control group", || async {
        if group.folder().exists() {
            return None;
        }
        if !server.as_ref().is_some_and(Proof::holds) {
            return Some(facts([("group_gone", json!(true)), ("target_gone", json!(true))]));
        }
        let now = Hierarchy::find(controller).ok()?.group_of(server.as_ref()?.pid)?;
        let back = Group::ours(&now).is_none();
        back.then(|| facts([("group_gone", json!(true)), ("group_now", json!(now.display().to_string()))]))
    })
    .await
}

fn group(site: &Site<'_>, memo: &Memo) -> Result<Group, FaultError> {
    let folder = PathBuf::from(memo["group"].as_str().unwrap_or_default());
    Group::ours(&folder).ok_or_else(|| site.failed("find the control group of", folder.display()))
}

fn pairs(memo: &Memo, name: &str) -> Vec<(String, String)> {
    let listed = memo.get(name).and_then(Value::as_array);
    let pair = |pair: &Value| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_str()?.to_owned()));
    listed.into_iter().flatten().filter_map(pair).collect()
}
