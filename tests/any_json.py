"""Everything that JSON can hold, and where metadata is looked into."""

from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = texts | st.sampled_from(["", "title", "category", "parent_report_id", "k" * 5_000, "$.category", "a.b"])
whole_numbers = st.integers() | st.sampled_from([2**53, 2**63, -(2**63) - 1, 10**30, -(10**4_000)])
numbers = st.floats(allow_nan=False, allow_infinity=False) | whole_numbers
scalars = st.none() | st.booleans() | numbers | texts
nested = st.builds(lambda levels: eval("[" * levels + "]" * levels), st.integers(1, 60))  # noqa: S307 - brackets only
values = st.recursive(
    scalars | nested,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
looked_into = st.sampled_from(["title", "category", "parent_report_id", "tags", "source"])
json_objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(names | looked_into, values, max_size=4)
