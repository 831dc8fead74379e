"""The session report: what the page shows of a session, for a file that needs no server and no network."""

from vector_memory.extras.window.report.session_report import chart_data, session_data

__all__ = ["chart_data", "session_data"]
