"""Texts as clients hand them to hooks."""

PROMPT = "Why does the deployment hang at the orders table?"
ANSWER = "The deployment waits because the migration holds a lock on the orders table until it is committed. " * 3
REPORT = "# Locks\n\nThe migration holds a lock on the orders table while it rewrites every row, so releases wait."
