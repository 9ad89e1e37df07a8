//! What an owner changes of a session.

use serde_json::{Map, Value};

use crate::model::Profile;

/// Which fields to replace; the others stay. `Some(None)` clears a field.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionEdit {
    pub name: Option<Option<String>>,
    pub key: Option<Option<String>>,
    pub description: Option<Option<String>>,
    pub category: Option<Option<String>>,
    pub is_public: Option<bool>,
    pub is_draft: Option<bool>,
    pub default_language: Option<Option<String>>,
    pub metadata: Option<Map<String, Value>>,
}

impl SessionEdit {
    /// The profile with the given fields replaced, and the wire names of those that differ.
    pub(super) fn apply(&self, mut profile: Profile) -> (Profile, Vec<String>) {
        let mut fields = Vec::new();
        let mut set = |name: &str, differs: bool| {
            if differs {
                fields.push(name.to_owned());
            }
        };
        set("name", replace(&mut profile.name, self.name.as_ref()));
        set("key", replace(&mut profile.key, self.key.as_ref()));
        set("description", replace(&mut profile.description, self.description.as_ref()));
        set("category", replace(&mut profile.category, self.category.as_ref()));
        set("isPublic", replace(&mut profile.is_public, self.is_public.as_ref()));
        set("isDraft", replace(&mut profile.is_draft, self.is_draft.as_ref()));
        set(
            "defaultLanguage",
            replace(&mut profile.default_language, self.default_language.as_ref()),
        );
        set("metadata", replace(&mut profile.metadata, self.metadata.as_ref()));
        (profile, fields)
    }
}

fn replace<T: Clone + PartialEq>(current: &mut T, new: Option<&T>) -> bool {
    let differs = new.is_some_and(|new| new != current);
    if let (true, Some(new)) = (differs, new) {
        *current = new.clone();
    }
    differs
}
