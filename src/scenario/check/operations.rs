//! Where `operations` would spoil a measure: a workload that has done its number is silent from then on, and
//! silence looks like an outage.

use super::Check;

const HINT: &str = "leave it out, and let \"duration\" end the run";

impl Check<'_> {
    /// A number of operations, and what it does not go with.
    pub(super) fn operations(&self) {
        let workloads = &self.scenario.workloads;
        let Some(first) = workloads.iter().position(|workload| workload.operations.is_some()) else {
            return;
        };
        let at = format!("workload.{first}.operations");
        self.judged_by_silence(&at);
        if self.stepped() {
            return;
        }
        if let Some(other) = workloads.iter().find(|workload| workload.operations.is_none()) {
            let all: Vec<_> = (0..workloads.len()).map(|index| format!("workload.{index}")).collect();
            let rests_on: Vec<_> = all.iter().map(String::as_str).collect();
            self.refuse(
                &at,
                &rests_on,
                format!("{:?} has no such number, and would go on when this one is done", other.name),
                "give every workload one, or none",
            );
        }
    }

    /// Whether the workload that is stepped has one, which is booked.
    fn stepped(&self) -> bool {
        let (sweep, search) = (&self.scenario.sweep, &self.scenario.find_max);
        let sweep = sweep.as_ref().map(|sweep| ("[sweep]", &sweep.workload));
        let search = search.as_ref().map(|search| ("[find_max]", &search.workload));
        let Some((table, name)) = sweep.or(search) else { return false };
        let mut workloads = self.scenario.workloads.iter();
        let found = workloads.position(|workload| workload.name == *name && workload.operations.is_some());
        if let Some(index) = found {
            let message = format!("{table} steps this workload, which could be done before the last step");
            self.refuse(&format!("workload.{index}.operations"), &[], message, "leave it out");
        }
        found.is_some()
    }

    /// Faults, and limits on the time without service.
    fn judged_by_silence(&self, at: &str) {
        if !self.scenario.faults.is_empty() {
            let message = "with faults, a workload that is done would look like one that does not recover";
            self.refuse(at, &["fault"], message, HINT);
            return;
        }
        let limits = &self.scenario.limits;
        let set = [
            ("hard_outage", limits.hard_outage),
            ("longest_gap", limits.longest_gap),
            ("sustained_recovery", limits.sustained_recovery),
        ];
        if let Some((name, _)) = set.into_iter().find(|(_, limit)| limit.is_some()) {
            let message = format!("with the limit {name}, a workload that is done would look like an outage");
            self.refuse(at, &[&format!("limits.{name}")], message, HINT);
        }
    }
}
