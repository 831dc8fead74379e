"""Storing memories and deriving what finds them: chunks, terms, passages, vectors, links."""
