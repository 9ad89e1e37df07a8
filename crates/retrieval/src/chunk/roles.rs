//! What the nodes of each grammar stand for.

use crate::language::Grammar;

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Belongs to what follows it.
    Lead,
    /// Has a name.
    Definition,
    /// Has a name, and definitions inside of it.
    Container,
    /// Holds other nodes and adds nothing of its own, e.g. `#ifdef`.
    Group,
    /// Stands around one definition, e.g. `export`.
    Wrapper,
    Other,
}

pub(super) fn role(grammar: Grammar, kind: &str) -> Role {
    if kind.ends_with("comment") {
        return Role::Lead;
    }
    match grammar {
        Grammar::Rust => rust(kind),
        Grammar::Python => python(kind),
        Grammar::JavaScript | Grammar::TypeScript | Grammar::Tsx => javascript(kind),
        Grammar::Go => go(kind),
        Grammar::Java => java(kind),
        Grammar::CSharp => csharp(kind),
        Grammar::C | Grammar::Cpp => c(kind),
    }
}

fn rust(kind: &str) -> Role {
    match kind {
        "attribute_item" => Role::Lead,
        "function_item"
        | "function_signature_item"
        | "struct_item"
        | "enum_item"
        | "union_item"
        | "type_item"
        | "const_item"
        | "static_item"
        | "macro_definition"
        | "associated_type" => Role::Definition,
        "trait_item" | "impl_item" | "mod_item" => Role::Container,
        "foreign_mod_item" => Role::Group,
        _ => Role::Other,
    }
}

fn python(kind: &str) -> Role {
    match kind {
        "function_definition" => Role::Definition,
        "class_definition" => Role::Container,
        "decorated_definition" => Role::Wrapper,
        _ => Role::Other,
    }
}

fn javascript(kind: &str) -> Role {
    match kind {
        "decorator" => Role::Lead,
        "function_declaration"
        | "generator_function_declaration"
        | "function_signature"
        | "method_definition"
        | "method_signature"
        | "abstract_method_signature"
        | "interface_declaration"
        | "type_alias_declaration"
        | "enum_declaration"
        | "public_field_definition"
        | "field_definition"
        | "lexical_declaration"
        | "variable_declaration" => Role::Definition,
        "class_declaration" | "abstract_class_declaration" | "internal_module" | "module" => {
            Role::Container
        }
        "export_statement" | "ambient_declaration" => Role::Wrapper,
        _ => Role::Other,
    }
}

fn go(kind: &str) -> Role {
    match kind {
        "function_declaration"
        | "method_declaration"
        | "type_declaration"
        | "const_declaration"
        | "var_declaration" => Role::Definition,
        _ => Role::Other,
    }
}

fn java(kind: &str) -> Role {
    match kind {
        "method_declaration"
        | "constructor_declaration"
        | "field_declaration"
        | "compact_constructor_declaration"
        | "constant_declaration" => Role::Definition,
        "class_declaration"
        | "interface_declaration"
        | "enum_declaration"
        | "record_declaration"
        | "annotation_type_declaration" => Role::Container,
        "enum_body_declarations" => Role::Group,
        _ => Role::Other,
    }
}

fn csharp(kind: &str) -> Role {
    match kind {
        "method_declaration"
        | "constructor_declaration"
        | "property_declaration"
        | "field_declaration"
        | "delegate_declaration"
        | "event_declaration"
        | "event_field_declaration"
        | "operator_declaration"
        | "indexer_declaration" => Role::Definition,
        "class_declaration"
        | "struct_declaration"
        | "interface_declaration"
        | "record_declaration"
        | "enum_declaration"
        | "namespace_declaration" => Role::Container,
        "preproc_if" | "preproc_region" => Role::Group,
        _ => Role::Other,
    }
}

fn c(kind: &str) -> Role {
    match kind {
        "function_definition"
        | "declaration"
        | "field_declaration"
        | "type_definition"
        | "alias_declaration"
        | "preproc_def"
        | "preproc_function_def"
        | "enum_specifier" => Role::Definition,
        "class_specifier" | "struct_specifier" | "union_specifier" | "namespace_definition" => {
            Role::Container
        }
        "preproc_ifdef"
        | "preproc_if"
        | "preproc_else"
        | "preproc_elif"
        | "linkage_specification"
        | "declaration_list" => Role::Group,
        "template_declaration" => Role::Wrapper,
        _ => Role::Other,
    }
}
