"""Thirty bad inputs, what is expected of each, and the tests that show it. `test_index.py` sees that they exist."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A bad input."""

    what: str
    expected: str
    tests: tuple[str, ...]


_HTTP = "integration/test_otlp_http.py::"
_GRPC = "integration/test_otlp_grpc.py::"
_JUDGE = "integration/test_openai_judge.py::"
_FAULTS = "e2e/test_judge_faults.py::"
_TRAPS = "integration/test_kafka_traps.py::"
_ATTACKS = "unit/evaluators/test_attacks.py::"
_SECRETS = "hostile/test_secrets.py::"
_ACCESS = "hostile/test_access.py::"
_CONFIG = "hostile/test_configuration.py::"
_LETTERS = "hostile/test_dead_letters.py::"
_STEPS = "chaos/test_steps.py::"
_CHAOS = "chaos/test_chaos.py::"
_AROUND = "chaos/test_faults.py::"

CASES = {
    1: Case(
        "gzip bomb 1000:1",
        "413, memory bounded",
        (_HTTP + "test_gzip_bomb_is_413_without_growing", _GRPC + "test_a_bomb_is_not_unpacked"),
    ),
    2: Case(
        "5 MiB body",
        "413",
        (_HTTP + "test_too_large_bodies_are_413", _GRPC + "test_giant_requests_are_refused_for_good"),
    ),
    3: Case("unknown content encodings", "415", (_HTTP + "test_other_encodings_are_415",)),
    4: Case(
        "bad, truncated, trailing gzip",
        "400",
        (
            _HTTP + "test_broken_gzip_is_400",
            "unit/receive/test_body.py::test_broken_streams_are_bad_input",
            _GRPC + "test_broken_gzip_is_invalid",
        ),
    ),
    5: Case(
        "half and dripping requests",
        "closed or 408, others are answered",
        (
            _HTTP + "test_half_sent_requests_do_not_hold_up_others",
            _HTTP + "test_dripping_headers_are_cut_off",
            _GRPC + "test_half_sent_requests_do_not_hold_up_others",
        ),
    ),
    6: Case(
        "one connection too many",
        "503",
        (
            _HTTP + "test_connections_beyond_the_cap_are_told_to_come_again",
            _GRPC + "test_connections_beyond_the_cap_are_closed",
        ),
    ),
    7: Case(
        "wrong content type, GET, empty body",
        "415, 405, 200",
        (
            _HTTP + "test_wrong_content_type_is_415",
            _HTTP + "test_other_methods_and_paths",
            _HTTP + "test_an_empty_body_is_an_empty_request",
        ),
    ),
    8: Case(
        "random and mutated bytes",
        "400, no other exception",
        (
            _HTTP + "test_random_bytes_never_do_more_than_400",
            _GRPC + "test_random_bytes_are_invalid_at_most",
            "hostile/test_fuzz.py::test_requests",
            "hostile/test_fuzz.py::test_changed_payloads",
            "hostile/test_fuzz.py::test_traces_of_every_dialect_at_once",
            "hostile/test_socket_fuzz.py::test_senders_of_anything_are_answered_or_hung_up_on",
        ),
    ),
    9: Case("two million empty spans", "413", (_HTTP + "test_items_beyond_the_limit_are_413_at_once",)),
    10: Case("deep AnyValue", "400", (_HTTP + "test_deep_protobuf_is_400",)),
    11: Case(
        "deep, huge, odd JSON",
        "400 or sanitised",
        (_HTTP + "test_hostile_json_is_400", _HTTP + "test_odd_text_in_json_refuses_nothing"),
    ),
    12: Case(
        "invalid UTF-8 in a string", "200", ("hostile/test_fuzz.py::test_what_is_no_utf_8_in_a_string_is_replaced",)
    ),
    13: Case("odd ids and times", "counted, rejected", (_HTTP + "test_odd_ids_and_times_are_taken_or_told",)),
    14: Case(
        "huge attributes and conversations",
        "cut with a marker, closed by a cap",
        (
            "hostile/test_fuzz.py::test_every_attribute_with_every_wrong_type",
            _HTTP + "test_large_attributes_pass",
            "unit/evaluators/test_g_eval.py::test_long_texts_are_cut_visibly",
            "unit/evaluate/conversations/test_keyed_sessions.py::test_limits_close_let_the_texts_go_and_what_comes_later_opens_afresh",
        ),
    ),
    15: Case(
        "missing and almost right tokens, a certificate of another authority",
        "401 in equal time, TLS failure",
        (
            _ACCESS + "test_only_a_whole_token_lets_in",
            _ACCESS + "test_every_token_is_compared_whole",
            _ACCESS + "test_token_files_rotate_without_a_restart",
            _ACCESS + "test_mutual_tls_lets_only_our_clients_in",
            _GRPC + "test_only_a_whole_token_lets_in",
            _GRPC + "test_mutual_tls_lets_only_our_clients_in",
        ),
    ),
    16: Case(
        "control characters in ids",
        "one JSON line, escaped",
        ("hostile/test_log_lines.py::test_a_conversation_id_cannot_break_the_line",),
    ),
    17: Case(
        "a million distinct names",
        "bounded series, `other`",
        ("hostile/test_labels.py::test_a_million_distinct_values_end_in_other",),
    ),
    18: Case(
        "bad Kafka records and batches",
        "dead letter or passed over, the partition moves",
        (
            _TRAPS + "test_what_cannot_be_decoded_goes_to_the_dead_letters_before_it_is_committed",
            _LETTERS + "test_what_could_not_even_be_read_is_put_aside_with_its_place_and_stops_a_stage_like_the_rest",
            _TRAPS + "test_trap_2_what_cannot_be_decoded_is_passed_over",
            _TRAPS + "test_trap_6_a_bomb_is_not_unpacked",
            "unit/receive/test_kafka_source.py::test_tombstones_ticks_and_empty_messages_are_passed",
            _LETTERS + "test_a_bad_record_is_put_aside_and_the_rest_goes_on",
        ),
    ),
    19: Case(
        "every record bad",
        "the limit trips, it stops and says so",
        (
            _LETTERS + "test_where_every_record_is_bad_it_stops_and_says_so",
            _LETTERS + "test_the_share_of_bad_records_is_bounded_too",
        ),
    ),
    20: Case(
        "dead-letter log unwritable",
        "waits, commits nothing",
        (_LETTERS + "test_while_the_dead_letter_log_cannot_be_written_the_delivery_does_not_end",),
    ),
    21: Case(
        "texts that speak to the judge",
        "no better score, flagged",
        (
            _ATTACKS + "test_it_stays_inside_the_fence",
            _ATTACKS + "test_a_marked_score_and_no_better_one",
            "unit/evaluators/test_g_eval.py::test_answers_without_a_word_are_not_worth_a_question",
            _SECRETS + "test_a_text_that_speaks_to_the_judge_is_flagged_and_counted",
            "hostile/test_canary.py::test_a_judge_that_obeys_is_found_out",
            "hostile/test_planted_verdicts.py::test_in_no_form_of_an_answer",
            "hostile/test_planted_verdicts.py::test_in_no_writing",
        ),
    ),
    22: Case(
        "judges that answer nonsense, too much, too late or not at all",
        "a failure with its type, retried within bounds, the breaker's state right",
        (
            "hostile/test_socket_fuzz.py::test_judges_that_answer_anything_give_a_score_or_a_failure_with_its_type",
            _JUDGE + "test_no_verdict",
            _JUDGE + "test_a_response_without_end",
            _JUDGE + "test_no_answer_in_time",
            _JUDGE + "test_rate_limited",
            _FAULTS + "test_a_judge_that_hangs_ends_at_the_deadline",
            "property/test_scores.py::test_no_text_makes_the_reader_fail_otherwise",
            "property/test_scores.py::test_nor_does_almost_json",
            "unit/evaluators/judges/test_circuit_breaker.py::test_opens_after_failures_in_a_row_and_asks_nothing_then",
        ),
    ),
    23: Case(
        "personal data and secrets in every text",
        "in no question, log, metric or file",
        (_SECRETS + "test_nothing_personal_is_stored_or_sent", _SECRETS + "test_deep_nesting_hides_nothing"),
    ),
    24: Case(
        "a redactor that raises",
        "nothing stored, nothing sent, counted",
        (
            _SECRETS + "test_a_redactor_that_fails_lets_nothing_through",
            _LETTERS + "test_what_could_not_be_redacted_is_never_kept",
        ),
    ),
    25: Case(
        "hostile YAML, secrets in dumps and errors",
        "one sentence, masked",
        (
            _CONFIG + "test_traps_are_errors",
            _CONFIG + "test_no_secret_is_in_the_plan_or_in_a_dump",
            _CONFIG + "test_no_secret_is_in_an_error",
        ),
    ),
    26: Case(
        "an endpoint that is a metadata address, or redirects",
        "refused",
        (_CONFIG + "test_endpoints_where_no_judge_is", _JUDGE + "test_redirects_are_not_followed"),
    ),
    27: Case(
        "SIGKILL at each step",
        "none missing, each once, only what was in flight asked again",
        (_STEPS + "test_on_sqlite", _STEPS + "test_on_kafka", _CHAOS + "test_workers_and_broker_die_at_random"),
    ),
    28: Case(
        "rebalance storm, broker away or standing still, disk full, topic deleted",
        "waits, goes on by itself, loses nothing",
        (
            _CHAOS + "test_a_storm_of_rebalances_loses_nothing_and_writes_nothing_twice",
            _CHAOS + "test_workers_and_broker_die_at_random",
            "integration/test_ledger_on_kafka.py::test_what_was_appended_without_an_answer_is_not_appended_again",
            _AROUND + "test_a_full_disk_is_waited_for_and_what_was_accepted_is_judged_once",
            _AROUND + "test_a_source_topic_that_is_deleted_and_made_again_is_read_again",
        ),
    ),
    29: Case(
        "the clock jumps an hour",
        "conversations neither all close nor hang",
        (
            _AROUND + "test_when_the_clock_jumps_an_hour_conversations_neither_all_close_nor_hang",
            "unit/logs/test_slewed_clock.py::test_a_jump_is_made_good_bit_by_bit",
        ),
    ),
    30: Case(
        "SIGTERM under load",
        "exit 0 within the grace, no question asked twice; a second signal exits now",
        (
            _AROUND + "test_sigterm_under_load_ends_in_order_and_costs_no_question",
            "e2e/test_signals.py::test_a_second_signal_ends_it_now_and_the_next_start_goes_on",
        ),
    ),
}
