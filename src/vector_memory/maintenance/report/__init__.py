"""Shows a session to people: one HTML page that needs no server and asks nothing of a network."""

from vector_memory.maintenance.report.session_report import SessionPage, SessionReports

__all__ = ["SessionPage", "SessionReports"]
