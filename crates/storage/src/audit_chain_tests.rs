use uuid::Uuid;

use super::*;

const ORG: OrgId = OrgId::from_uuid(Uuid::from_u128(1));

#[test]
fn a_whole_chain_is_intact_and_shows_its_head() {
    let rows = chain(4);

    let report = verify(&rows, None);

    let head = head_of(&rows[3]);
    assert_eq!(report, AuditReport { intact: 4, unsealed: 7, head: Some(head), problem: None });
    assert_eq!(verify(&rows, Some(head)), report);
    assert_eq!(verify(&rows, Some(head_of(&rows[1]))), report);
    assert_eq!(verify(&[], None), AuditReport { unsealed: 7, ..AuditReport::default() });
}

#[test]
fn a_row_that_was_changed_is_named_whatever_was_changed_in_it() {
    let rows = chain(4);
    let changes: [fn(&mut StoredRow); 7] = [
        |row| content(row).action = b"b".to_vec(),
        |row| content(row).target = b"t".to_vec(),
        |row| content(row).detail = b"{ }".to_vec(),
        |row| content(row).actor = UserId::from_uuid(Uuid::from_u128(9)),
        |row| content(row).at = Timestamp::from_millis(0),
        |row| row.hash[0] ^= 1,
        |row| row.content = None,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut rows = rows.clone();
        change(&mut rows[2]);

        let report = verify(&rows, None);

        assert_eq!(report.problem, Some(AuditProblem::Changed { number: 3 }), "change {index}");
        assert_eq!((report.intact, report.head), (2, Some(head_of(&rows[1]))), "change {index}");
    }
}

#[test]
fn a_row_that_is_gone_is_missing() {
    for gone in [0, 2] {
        let mut rows = chain(4);
        rows.remove(gone);

        let report = verify(&rows, None);

        let number = gone as u64 + 1;
        assert_eq!(report.problem, Some(AuditProblem::Missing { number }));
        assert_eq!(report.intact, number - 1);
    }
}

#[test]
fn rows_that_changed_places_are_reordered_near_or_far_with_or_without_their_hashes() {
    for (first, second) in [(1, 2), (1, 5), (0, 1), (4, 5)] {
        let mut with_hashes = chain(6);
        let places = (with_hashes[first].chain_no, with_hashes[second].chain_no);
        with_hashes.swap(first, second);
        (with_hashes[first].chain_no, with_hashes[second].chain_no) = places;
        let mut contents_only = chain(6);
        let moved = contents_only[first].content.take();
        contents_only[first].content = contents_only[second].content.take();
        contents_only[second].content = moved;

        for rows in [with_hashes, contents_only] {
            let report = verify(&rows, None);

            let number = first as u64 + 1;
            assert_eq!(report.problem, Some(AuditProblem::Reordered { number }));
            assert_eq!(report.intact, first as u64);
        }
    }
}

#[test]
fn a_chain_that_was_cut_is_told_by_a_head_that_was_kept() {
    let rows = chain(5);
    let seen = Some(head_of(&rows[4]));
    let cut = &rows[..3];
    let mut grown_again = Vec::from(cut);
    let mut head = head_after(cut);
    for name in ["x", "y", "z"] {
        grown_again.push(next(&mut head, name));
    }

    let cases = [
        (cut, None, None),
        (cut, seen, Some(AuditProblem::Truncated { found: 3, expected: 5 })),
        (&[][..], seen, Some(AuditProblem::Truncated { found: 0, expected: 5 })),
        (&grown_again[..], None, None),
        (&grown_again[..], seen, Some(AuditProblem::Truncated { found: 4, expected: 5 })),
        (&grown_again[..5], seen, Some(AuditProblem::Truncated { found: 4, expected: 5 })),
    ];
    for (index, (rows, seen, problem)) in cases.into_iter().enumerate() {
        assert_eq!(verify(rows, seen).problem, problem, "case {index}");
    }
}

#[test]
fn a_row_of_another_org_does_not_fit() {
    let mut verifier = ChainVerifier::new(OrgId::from_uuid(Uuid::from_u128(2)), None);

    verifier.check(&chain(1)[0]);

    assert_eq!(verifier.report(0).problem, Some(AuditProblem::Changed { number: 1 }));
}

#[test]
fn moving_a_letter_between_fields_changes_the_hash() {
    let row = |action: &'static [u8], target: &'static [u8]| ChainedRow {
        org: ORG,
        chain_no: 1,
        at: Timestamp::from_millis(5),
        actor: UserId::from_uuid(Uuid::from_u128(2)),
        action,
        target,
        detail: b"{}",
    };

    assert_ne!(chain_hash(&GENESIS, &row(b"ab", b"c")), chain_hash(&GENESIS, &row(b"a", b"bc")));
}

fn verify(rows: &[StoredRow], seen: Option<AuditHead>) -> AuditReport {
    let mut verifier = ChainVerifier::new(ORG, seen);
    for row in rows {
        if !verifier.check(row) {
            break;
        }
    }
    verifier.report(7)
}

fn chain(length: usize) -> Vec<StoredRow> {
    let mut head = Head::NONE;
    (0..length).map(|index| next(&mut head, &format!("row {index}"))).collect()
}

fn next(head: &mut Head, target: &str) -> StoredRow {
    let content = StoredContent {
        at: Timestamp::from_millis(5),
        actor: UserId::from_uuid(Uuid::from_u128(2)),
        action: b"a".to_vec(),
        target: target.as_bytes().to_vec(),
        detail: b"{}".to_vec(),
    };
    *head = head.followed_by(&content.at_place(ORG, 0));
    StoredRow { chain_no: head.chain_no, content: Some(content), hash: head.hash.to_vec() }
}

fn head_after(rows: &[StoredRow]) -> Head {
    let last = rows.last().unwrap();
    Head { chain_no: last.chain_no, hash: last.hash.clone().try_into().unwrap() }
}

fn head_of(row: &StoredRow) -> AuditHead {
    let hash = Sha256Hash::from_bytes(row.hash.clone().try_into().unwrap());
    AuditHead { number: row.chain_no, hash }
}

fn content(row: &mut StoredRow) -> &mut StoredContent {
    row.content.as_mut().unwrap()
}
