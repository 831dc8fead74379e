"""Queries that name one thing and mean nothing by themselves, such as a hash or a version."""

import re

REFERENCE = re.compile(
    r"""
    \#?\d[\d.,:/-]*  # numbers, dates and times, addresses: #42, 2026-10-05, 10.0.0.1:8080
    | v?\d++(?:\.\d++)++[\w.+-]*+  # versions
    | (?=[a-f]*\d)(?=\d*[a-f])[\da-f]{7,64}  # hashes
    | [\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}  # UUIDs
    | [a-z]+(?:-\d+)*-\d{2,} | [a-z]\d{3,}  # tickets and codes: CVE-2026-1234, E0502
    | [a-z]+://\S+ | (?:[\w-]+\.)+[a-z]{2,}/\S+ | \S+@[\w-]+(?:\.[\w-]+)+  # URLs, hosts with a path, e-mail addresses
    | /?[\w.-]+(?:/[\w.-]+)+\.\w{1,5}  # paths of files
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


def is_reference(query: str) -> bool:
    """Return whether every word of a query is a number, a code or an address.

    Such words have no meaning that vectors could compare: for the model, any two hashes are near each other.
    """
    words = query.split()
    return bool(words) and all(map(REFERENCE.fullmatch, words))
