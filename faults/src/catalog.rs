//! The one list of fault kinds: what each does, its parameters with defaults, and what it needs.

/// One kind of fault, for people and for the checker.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Key in the scenario file.
    pub name: &'static str,
    /// Group in the table.
    pub group: &'static str,
    /// One line: what it does.
    pub does: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// What must be there for it to work.
    pub needs: &'static [Need],
}

/// One parameter of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Key in the scenario file.
    pub name: &'static str,
    /// What it takes, with an example.
    pub takes: &'static str,
    /// Value when it is left out; `None`: it must be given.
    pub default: Option<&'static str>,
}

/// What a fault needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The processes must be ours (a managed cluster).
    ManagedProcess,
}

impl Need {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::ManagedProcess => "a managed cluster",
        }
    }
}

const END: &[Parameter] = &[
    Parameter {
        name: "target",
        takes: "primary, secondary, any, all or a node's name",
        default: Some("primary"),
    },
    Parameter { name: "restart_after", takes: "a duration, \"10s\"", default: Some("10s") },
];

/// Every kind, in the order of the table.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "kill",
        group: "process",
        does: "SIGKILL a mongod, start it again on its old data after a time",
        parameters: END,
        needs: &[Need::ManagedProcess],
    },
    Kind {
        name: "stop",
        group: "process",
        does: "SIGTERM a mongod (clean shutdown), start it again after a time",
        parameters: END,
        needs: &[Need::ManagedProcess],
    },
];

/// The kind of that name.
#[must_use]
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.name == name)
}
