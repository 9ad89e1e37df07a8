//! Pure decisions, tested as tables.
