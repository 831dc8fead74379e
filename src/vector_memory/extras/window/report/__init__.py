"""The session report: an HTML page that needs no server and no network."""

from vector_memory.extras.window.report.session_report import SelectionPages, SessionPage, SessionReports

__all__ = ["SelectionPages", "SessionPage", "SessionReports"]
