//! Which questions of an agent are answered without asking anybody.

use crate::model::PermissionOption;

/// What an operator allows an agent in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionPolicy {
    #[default]
    Ask,
    /// Reading and searching.
    AllowReads,
    AllowAll,
}

/// The option that the policy takes, or `None` when a person decides.
///
/// Among the options that allow, the narrowest is taken: what is allowed once is asked again the next time.
pub fn decide<'a>(
    policy: PermissionPolicy,
    tool_kind: &str,
    options: &'a [PermissionOption],
) -> Option<&'a PermissionOption> {
    let is_allowed = match policy {
        PermissionPolicy::Ask => false,
        PermissionPolicy::AllowReads => matches!(tool_kind, "read" | "search"),
        PermissionPolicy::AllowAll => true,
    };
    let of_kind = |kind: &str| options.iter().find(|option| option.kind == kind);
    is_allowed.then(|| of_kind("allow_once").or_else(|| of_kind("allow_always")))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(id: &str, kind: &str) -> PermissionOption {
        PermissionOption { option_id: id.to_owned(), name: id.to_owned(), kind: kind.to_owned() }
    }

    #[test]
    fn a_policy_takes_the_narrowest_option_that_allows_and_leaves_the_rest_to_people() {
        use PermissionPolicy::{AllowAll, AllowReads, Ask};
        let all =
            [option("a", "allow_always"), option("o", "allow_once"), option("n", "reject_once")];
        let table = [
            (Ask, "read", None),
            (AllowReads, "read", Some("o")),
            (AllowReads, "search", Some("o")),
            (AllowReads, "edit", None),
            (AllowReads, "execute", None),
            (AllowReads, "other", None),
            (AllowAll, "execute", Some("o")),
        ];

        for (policy, kind, expected) in table {
            let taken = decide(policy, kind, &all).map(|option| option.option_id.as_str());
            assert_eq!(taken, expected, "{policy:?} {kind}");
        }
        assert_eq!(decide(AllowAll, "edit", &all[2..]), None, "nothing that allows");
        let always = decide(AllowAll, "edit", &all[..1]).map(|option| option.option_id.as_str());
        assert_eq!(always, Some("a"));
    }
}
