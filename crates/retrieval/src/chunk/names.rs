//! What a definition is called.

use tree_sitter::Node;

/// Longer names are no names.
const MAX_NAME_BYTES: usize = 120;

/// How far a declarator may be nested: `int (*(*f)(void))[3]` needs four.
const MAX_DECLARATORS: usize = 8;

/// The names that a definition gives, without what stands around it.
pub(super) fn names(node: Node<'_>, text: &str) -> Vec<String> {
    match node.kind() {
        "impl_item" => implemented(node, text),
        "method_declaration" => method(node, text),
        "type_declaration"
        | "const_declaration"
        | "var_declaration"
        | "lexical_declaration"
        | "variable_declaration"
        | "field_declaration"
        | "event_field_declaration"
        | "constant_declaration"
        | "declaration"
        | "type_definition" => declared(node, text),
        _ => named(node, text).or_else(|| declarator(node, text)).into_iter().collect(),
    }
}

/// `NAME = …` outside of functions, and `exports.name = function …`.
pub(super) fn assigned(node: Node<'_>, text: &str) -> Option<String> {
    if node.kind() != "expression_statement" {
        return None;
    }
    let assignment = node.named_child(0)?;
    if !matches!(assignment.kind(), "assignment" | "assignment_expression") {
        return None;
    }
    let left = assignment.child_by_field_name("left")?;
    let is_name = matches!(left.kind(), "identifier" | "member_expression");
    is_name.then(|| plain(left, text)).flatten()
}

/// The names that lines of source seem to declare, for text that no grammar could read: inside of macros, and in
/// languages without one.
pub(super) fn guessed(text: &str) -> Vec<String> {
    const DECLARING: &[&str] = &[
        "fn",
        "struct",
        "enum",
        "trait",
        "class",
        "interface",
        "def",
        "defp",
        "func",
        "function",
        "fun",
        "module",
        "object",
        "protocol",
        "union",
        "macro_rules!",
        "sub",
    ];
    const BEFORE: &[&str] = &[
        "pub",
        "pub(crate)",
        "pub(super)",
        "async",
        "unsafe",
        "const",
        "extern",
        "export",
        "default",
        "public",
        "private",
        "protected",
        "internal",
        "static",
        "abstract",
        "final",
        "sealed",
        "open",
        "override",
        "data",
        "inline",
        "local",
    ];
    let declared = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip_while(|word| BEFORE.contains(word));
        let declares = words.next().is_some_and(|word| DECLARING.contains(&word));
        let name = words.next().filter(|_| declares)?;
        let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
        (end > 0 && end <= MAX_NAME_BYTES).then(|| name[..end].to_owned())
    };
    text.lines().filter_map(declared).collect()
}

fn named(node: Node<'_>, text: &str) -> Option<String> {
    let name = node.child_by_field_name("name").or_else(|| node.child_by_field_name("property"))?;
    plain(name, text)
}

/// `impl Trait for Type` is about `Type`.
fn implemented(node: Node<'_>, text: &str) -> Vec<String> {
    let Some(subject) = node.child_by_field_name("type") else { return Vec::new() };
    let subject = subject.child_by_field_name("type").unwrap_or(subject);
    plain(subject, text).into_iter().collect()
}

/// Go names the receiver's type before the method; other languages have none.
fn method(node: Node<'_>, text: &str) -> Vec<String> {
    let Some(name) = named(node, text) else { return Vec::new() };
    let receiver = node.child_by_field_name("receiver").and_then(|list| plain_source(list, text));
    let holder = receiver.and_then(|list| {
        let list = list.trim_matches(['(', ')']);
        let holder = list.split('[').next()?.split_whitespace().last()?;
        Some(holder.trim_start_matches('*').to_owned())
    });
    vec![holder.map_or(name.clone(), |holder| format!("{holder}::{name}"))]
}

/// One statement may declare several names.
fn declared(node: Node<'_>, text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    found.extend(named(node, text));
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor) {
        match child.kind() {
            "type_spec" | "type_alias" | "const_spec" | "var_spec" | "variable_declarator" => {
                found.extend(named(child, text));
            }
            "type_spec_list" | "const_spec_list" | "var_spec_list" | "variable_declaration" => {
                found.extend(declared(child, text));
            }
            "struct_specifier" | "enum_specifier" | "union_specifier" | "class_specifier" => {
                found.extend(named(child, text));
            }
            _ => {}
        }
    }
    if let Some(declared) = declarator(node, text)
        && !found.contains(&declared)
    {
        found.push(declared);
    }
    found
}

/// C hides a name inside of pointers, arrays and parameter lists.
fn declarator(node: Node<'_>, text: &str) -> Option<String> {
    let mut inner = node.child_by_field_name("declarator")?;
    for _ in 0..MAX_DECLARATORS {
        match inner.child_by_field_name("declarator").or_else(|| parenthesised(inner)) {
            Some(next) => inner = next,
            None => break,
        }
    }
    match inner.kind() {
        "variable_declarator" => named(inner, text),
        _ => plain(inner, text),
    }
}

fn parenthesised(node: Node<'_>) -> Option<Node<'_>> {
    matches!(node.kind(), "parenthesized_declarator" | "reference_declarator")
        .then(|| node.named_child(0))
        .flatten()
}

fn plain(node: Node<'_>, text: &str) -> Option<String> {
    let name = plain_source(node, text)?.trim_matches(['"', '\'', '`']);
    (!name.is_empty() && !name.contains(['\n', '{', '('])).then(|| name.to_owned())
}

fn plain_source<'a>(node: Node<'_>, text: &'a str) -> Option<&'a str> {
    let source = text.get(node.byte_range())?;
    (source.len() <= MAX_NAME_BYTES).then_some(source)
}
