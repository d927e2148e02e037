"""What attacks go for, and which of them stand for each: those are tried by
``make test``, all by ``make test-all``.
"""

from __future__ import annotations

KINDS: dict[str, str] = {
    "answers that are equal to everything": "tensor_equal_to_everything",
    "replies written past the harness": "forges_replies knows_the_request",
    "a harness of its own": "replies_with_rubbish",
    "what the grader is made to compute or hold": "sends_66000_sizes asks_for_too_much forges_a_bomb",
    "values without end or bottom": "contains_itself endless_mapping",
    "borrowed answers": "borrows_unwatched borrows_and_swallows imports_the_reference",
    "knowing the inputs": "plays_back_what_it_was_sent counts_the_calls",
    "ending its process": "exits_at_once kills_itself",
    "never coming back": "never_returns recurses_for_ever",
    "processes and threads": "fork_bomb leaves_processes",
    "memory and disk": "memory_bomb fills_the_disk",
    "other processes": "reaches_other_processes signals_the_grader",
    "files": "reads_the_tests reads_other_submissions writes_its_grade",
    "the network": "opens_sockets",
    "others' Python": "patches_json changes_torch_for_others hides_among_modules",
    "hostile text": "raises_hostile_text floods_the_output",
}
SAMPLE = {name for names in KINDS.values() for name in names.split()}
