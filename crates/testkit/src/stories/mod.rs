//! The contract of the storage port: one story per promise, told to every engine.

pub mod atomic;
pub mod audit;
pub mod chains;
pub mod documents;
pub mod lists;
pub mod log;
pub mod payloads;
pub mod people;
pub mod permissions;
pub mod plans;
pub mod registry;
pub mod sessions;
pub mod system;
pub mod tenants;
pub mod turns;

/// Makes one test of every story. The argument names an `async fn() -> TestStore` beside the call.
#[macro_export]
macro_rules! contract_tests {
    ($open:ident) => {
        $crate::contract_tests! { @modules $open
            sessions {
                creating_a_session_opens_its_log_its_segment_and_its_owners_access
                a_session_id_can_be_used_once
                saving_a_session_writes_its_state_and_everything_editable
                every_final_state_keeps_its_reason
                a_session_that_moved_on_is_not_overwritten
                of_many_edits_of_one_revision_exactly_one_wins
                text_of_every_script_comes_back_as_it_was
                moments_are_kept_to_the_millisecond
                a_checkpoint_is_read_back_as_it_was
                a_change_set_of_nothing_commits_nothing
            }
            turns {
                turn_numbers_are_unique_and_in_log_order_under_concurrency
                an_idle_log_is_required_where_it_is_expected
                of_many_prompts_to_an_idle_session_exactly_one_wins
                the_queue_takes_no_more_than_its_limit
                a_turn_is_pending_or_queued_where_that_is_expected
                a_queued_turn_starts_once_and_only_when_no_other_runs
                a_second_running_turn_is_refused
                a_turn_finishes_once_and_is_kept_field_by_field
                a_failed_turn_keeps_its_code_and_its_errors
                of_many_outcomes_of_one_turn_exactly_one_is_kept
                turns_are_paged_from_either_end
                a_turn_is_found_only_through_a_session_that_reads_it
                pending_turns_are_listed_in_their_order
                the_newest_turn_is_shown_with_its_session
                whoever_creates_a_turn_takes_part
            }
            plans {
                a_plan_is_read_back_as_it_was_with_its_chunks_in_their_order
                turns_with_and_without_plans_are_listed_together
                a_plan_is_made_anew_while_its_turn_is_pending
                a_plan_of_a_finished_turn_stays_as_it_is
                only_files_of_the_turn_can_be_decided_on
                an_answer_keeps_its_bundle
                a_response_that_was_noted_is_seen_by_recovery
                a_turn_that_begins_and_fails_at_once_has_its_number_in_both_events
                purging_a_session_removes_its_plans_its_chain_and_its_tokens
            }
            chains {
                a_chain_shows_what_it_holds_of_what_was_asked_for
                a_chain_is_seen_in_its_own_log_and_org_only
                a_session_shows_when_its_chain_expires
                a_new_chain_forgets_what_the_one_before_held
                what_a_chain_holds_is_listed_the_latest_first
                a_chain_needs_a_log
                tokens_are_counted_by_org_user_and_log_from_a_day_on
                no_token_is_lost_when_many_turns_end_at_once
            }
            permissions {
                a_question_is_read_back_as_it_was
                of_many_answers_to_one_question_exactly_one_is_kept
                only_open_questions_are_listed_as_pending
                sessions_with_a_process_are_found_while_they_are_at_work
            }
            log {
                numbers_have_no_gap_under_many_writers_of_one_log
                numbers_have_no_gap_under_many_writers_of_many_logs
                one_change_set_can_append_to_two_logs
                two_writers_of_the_same_two_logs_do_not_block_each_other_for_ever
                every_kind_of_event_is_read_back_as_it_was
                a_read_of_the_log_is_limited_by_count
                a_read_of_the_log_is_limited_by_bytes_but_never_empty
                messages_are_read_in_ranges_from_either_end
                messages_since_a_moment_leave_that_moment_out
                what_closes_a_message_reads_as_that_message
                the_log_knows_its_newest_event
            }
            atomic {
                a_failing_write_leaves_nothing_of_its_change_set
                a_failing_expectation_leaves_nothing_of_its_change_set
                an_event_for_an_unknown_log_leaves_nothing_of_its_change_set
                a_used_key_leaves_nothing_of_its_change_set
                a_change_set_that_failed_can_be_sent_again
                a_key_is_remembered_once_for_each_user
                a_repeated_key_is_told_before_anything_else
                of_many_requests_with_one_key_exactly_one_creates
                a_name_that_is_taken_is_a_conflict
                a_commit_goes_on_when_its_caller_stops_waiting
            }
            documents {
                a_document_is_read_back_as_it_was
                documents_are_paged_over_the_logs_that_are_asked_for
                a_document_of_another_org_is_not_there
                documents_go_with_their_log
            }
            payloads {
                an_inline_body_comes_back
                a_body_in_parts_comes_back_in_order
                a_text_in_the_log_is_a_payload_without_being_stored_twice
                a_text_in_the_log_of_a_new_session_is_a_payload_too
                a_body_that_does_not_match_its_hash_is_corrupt
                an_unknown_payload_is_missing
                a_payload_is_read_through_the_sessions_of_its_log
                a_payload_needs_a_log
                many_bodies_come_in_the_order_in_which_they_were_asked_for
                one_corrupt_body_of_many_is_told
                a_part_that_is_put_again_stays_as_it_is
            }
            lists {
                sessions_are_listed_newest_first_with_whole_records
                sessions_are_filtered_by_states
                sessions_are_filtered_by_agent_interface_and_repository
                a_session_of_an_unknown_repository_is_refused
                free_text_is_taken_literally_in_any_case
                what_no_counter_knows_is_counted_as_far_as_is_asked
                sessions_of_a_user_are_those_owned_and_those_taken_part_in
                a_member_sees_own_public_and_shared_work_only
                a_token_for_one_session_lists_that_session
                pages_by_cursor_have_no_gap_or_duplicate_while_sessions_arrive
                a_full_last_page_has_no_next
                totals_stay_exact_while_sessions_come_move_and_go
                an_offset_counts_from_the_newest_or_from_the_cursor
            }
            people {
                people_are_found_in_their_org
                users_are_listed_in_the_order_of_ids_page_by_page
                saving_a_user_writes_name_role_and_whether_they_are_disabled
                a_disabled_users_tokens_open_nothing
                a_token_is_found_by_its_id_and_by_its_secret
                a_token_is_revoked_once
                tokens_are_listed_newest_first_page_by_page
                purging_a_session_removes_all_but_its_tickets
                a_ticket_that_is_not_there_is_missing
            }
            registry {
                a_repository_is_found_by_its_id_and_by_its_name
                a_repositorys_name_is_unique_in_its_org_and_free_in_another
                registries_are_listed_in_the_order_of_ids_page_by_page
                an_agent_contexts_versions_grow_and_old_ones_stay
                a_conversation_contexts_versions_grow_and_old_ones_stay
                a_contexts_name_is_unique_in_its_org_and_free_in_another
                of_many_changes_of_one_context_exactly_one_is_the_next_version
                configured_agents_are_read_by_every_org_and_written_by_none
                a_session_is_bound_to_versions_that_exist
                a_session_can_move_to_a_newer_version_of_its_contexts
            }
            audit {
                audit_rows_are_numbered_from_one_in_each_org_and_read_back
                audit_rows_are_listed_by_number_page_by_page
                a_refused_change_set_leaves_no_audit_row
                the_audit_log_has_no_gap_under_many_writers
                a_log_longer_than_a_page_is_checked_whole
                every_row_is_sealed_or_counted_as_unsealed
                a_head_that_was_seen_and_is_gone_tells_that_the_log_was_cut
                an_org_without_rows_has_an_empty_log
            }
            system {
                pending_turns_of_all_orgs_are_paged_in_the_order_of_their_ids
                paging_goes_on_after_a_turn_that_was_finished_meanwhile
                an_org_is_found_by_its_id
                an_org_can_be_made_in_another_orgs_scope
                agents_keep_their_ids_and_grow_a_version_with_each_change
                agents_registered_by_many_at_once_are_the_same_agents
                every_org_has_the_configured_conversation_contexts
                a_conversation_context_that_is_configured_no_more_stays_with_its_sessions
                the_instance_owner_is_known_after_the_first_run
                a_sweep_removes_old_keys_and_parts_that_no_payload_names
                a_store_that_can_write_says_so
            }
            tenants {
                another_org_reads_nothing
                another_org_lists_nothing
                writes_that_name_another_orgs_records_change_nothing
                expectations_about_another_orgs_records_fail
                keys_of_one_org_are_free_in_another
                a_scope_of_no_org_finds_nothing
            }
        }
    };
    (@modules $open:ident $($module:ident { $($story:ident)+ })+) => {$(
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    super::$open().await.run($crate::stories::$module::$story).await;
                }
            )+
        }
    )+};
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_story_is_told() {
        let told: Vec<&str> = include_str!("mod.rs").split_whitespace().collect();
        let written = [
            include_str!("sessions.rs"),
            include_str!("turns.rs"),
            include_str!("log.rs"),
            include_str!("atomic.rs"),
            include_str!("plans.rs"),
            include_str!("chains.rs"),
            include_str!("payloads.rs"),
            include_str!("lists.rs"),
            include_str!("people.rs"),
            include_str!("registry.rs"),
            include_str!("audit.rs"),
            include_str!("system.rs"),
            include_str!("tenants.rs"),
        ];

        let untold: Vec<&str> = written
            .iter()
            .flat_map(|source| source.split("\npub async fn ").skip(1))
            .filter_map(|story| story.split('(').next())
            .filter(|story| !told.contains(story))
            .collect();

        assert_eq!(untold, [""; 0]);
    }
}
