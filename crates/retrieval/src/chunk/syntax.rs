//! Units of a syntax tree: definitions with what leads them in, whole where they are small enough.

use tree_sitter::{Node, Tree};

use super::{
    lines::Lines,
    names::{assigned, names},
    roles::{Role, role},
    units::Unit,
};
use crate::language::Grammar;

/// Containers inside containers; deeper ones are taken as they are.
const MAX_DEPTH: usize = 12;

/// With more than one part in so many that cannot be read, the text is in some other language.
const MAX_UNREADABLE: usize = 4;

/// None when the text is not in this language.
pub(super) fn units(lines: &Lines<'_>, grammar: Grammar, tree: &Tree) -> Option<Vec<Unit>> {
    let root = tree.root_node();
    if root.is_error() || unreadable_bytes(root) * MAX_UNREADABLE > lines.text().len() {
        return None;
    }
    let mut split = Split { lines, grammar, units: Vec::new() };
    split.children(root, "", 0);
    Some(split.units)
}

fn unreadable_bytes(root: Node<'_>) -> usize {
    if !root.has_error() {
        return 0;
    }
    let mut cursor = root.walk();
    let errors = root.children(&mut cursor).filter(|child| child.is_error());
    errors.map(|child| child.byte_range().len()).sum()
}

struct Split<'a> {
    lines: &'a Lines<'a>,
    grammar: Grammar,
    units: Vec<Unit>,
}

impl Split<'_> {
    fn children(&mut self, parent: Node<'_>, within: &str, depth: usize) {
        let mut lead: Option<Unit> = None;
        let mut cursor = parent.walk();
        for child in parent.named_children(&mut cursor) {
            let rows = rows(child);
            let at_same_line = self.units.last().is_some_and(|unit| unit.last >= rows.0);
            let role = role(self.grammar, child.kind());
            if role == Role::Lead && !at_same_line {
                lead = Some(match lead.take() {
                    Some(before) if before.last + 1 >= rows.0 => Unit::plain(before.first, rows.1),
                    before => {
                        self.units.extend(before);
                        Unit::plain(rows.0, rows.1)
                    }
                });
                continue;
            }
            let first = match lead.take() {
                Some(before) if before.last + 1 >= rows.0 => before.first.min(rows.0),
                before => {
                    self.units.extend(before);
                    rows.0
                }
            };
            self.child(child, first, within, depth);
        }
        self.units.extend(lead);
    }

    fn child(&mut self, node: Node<'_>, first: usize, within: &str, depth: usize) {
        let mut unit = Unit::plain(first, rows(node).1);
        let inner = self.unwrapped(node);
        match role(self.grammar, inner.kind()) {
            Role::Group if depth < MAX_DEPTH => self.open(inner, unit, within, depth),
            Role::Container => {
                let names = qualified(within, names(inner, self.lines.text()));
                let name = names.first().cloned().unwrap_or_else(|| within.to_owned());
                unit.symbols = names;
                unit.is_apart = true;
                if unit.is_small(self.lines) || depth >= MAX_DEPTH {
                    self.inner_names(inner, &name, &mut unit.symbols, depth);
                    self.units.push(unit);
                } else {
                    self.open(inner, unit, &name, depth);
                }
            }
            Role::Definition => {
                unit.symbols = qualified(within, names(inner, self.lines.text()));
                self.units.push(unit);
            }
            _ => {
                let name = assigned(inner, self.lines.text()).into_iter().collect();
                unit.symbols = qualified(within, name);
                self.units.push(unit);
            }
        }
    }

    /// What an `export` or a decorator stands around.
    fn unwrapped<'t>(&self, node: Node<'t>) -> Node<'t> {
        let mut inner = node;
        for _ in 0..4 {
            if role(self.grammar, inner.kind()) != Role::Wrapper {
                break;
            }
            let named = ["definition", "declaration", "value"];
            let held = named.iter().find_map(|field| inner.child_by_field_name(field));
            let Some(held) = held.or_else(|| last_named(inner)) else { break };
            inner = held;
        }
        inner
    }

    /// The head of a container, what is in it, and its end.
    fn open(&mut self, node: Node<'_>, unit: Unit, within: &str, depth: usize) {
        let body = node.child_by_field_name("body").unwrap_or(node);
        let before = self.units.len();
        let head_last = body_start(body, node).saturating_sub(1).clamp(unit.first, unit.last);
        self.units.push(Unit { last: head_last, ..unit.clone() });
        self.children(body, within, depth + 1);
        if let Some(last) = self.units.last_mut()
            && before > 0
        {
            last.last = last.last.max(unit.last);
        }
    }

    /// The names of what a small container defines.
    fn inner_names(&self, node: Node<'_>, within: &str, found: &mut Vec<String>, depth: usize) {
        let body = node.child_by_field_name("body").unwrap_or(node);
        let mut cursor = body.walk();
        for child in body.named_children(&mut cursor) {
            let child = self.unwrapped(child);
            match role(self.grammar, child.kind()) {
                Role::Definition => {
                    found.extend(qualified(within, names(child, self.lines.text())))
                }
                Role::Container if depth < MAX_DEPTH => {
                    let inner = qualified(within, names(child, self.lines.text()));
                    let name = inner.first().cloned().unwrap_or_else(|| within.to_owned());
                    found.extend(inner);
                    self.inner_names(child, &name, found, depth + 1);
                }
                _ => {}
            }
        }
    }
}

/// The row at which the first thing inside of a container begins.
fn body_start(body: Node<'_>, node: Node<'_>) -> usize {
    let own = node.start_position().row;
    let mut cursor = body.walk();
    let mut rows = body.named_children(&mut cursor).map(|child| child.start_position().row);
    rows.find(|row| *row > own).unwrap_or(own + 1)
}

fn last_named(node: Node<'_>) -> Option<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).last()
}

/// First and last row; a node that ends at the start of a line does not have that line.
fn rows(node: Node<'_>) -> (usize, usize) {
    let (start, end) = (node.start_position(), node.end_position());
    let last = if end.column == 0 { end.row.saturating_sub(1) } else { end.row };
    (start.row, last.max(start.row))
}

fn qualified(within: &str, names: Vec<String>) -> Vec<String> {
    match within {
        "" => names,
        _ => names.into_iter().map(|name| format!("{within}::{name}")).collect(),
    }
}
