"""Every statement of these tests is one that Citus takes: `conftest.py` looks at each."""

import pytest

from distributable import problem_of


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("delete from canonical_tags; delete from namespace", "several commands"),
        ("select 1 where exists (select from namespace)", "empty select list"),
        ("update namespace set revision = extract(epoch from clock_timestamp())", "volatile"),
        ("select nextval('numbers') from keyword_blocks", "nextval"),
    ],
)
def test_a_statement_that_citus_refuses_is_noticed(statement: str, problem: str) -> None:
    assert problem in (problem_of(statement) or "")


def test_a_text_in_a_statement_is_no_command() -> None:
    assert problem_of("select ';', 'select from' from namespace where id = 1") is None
