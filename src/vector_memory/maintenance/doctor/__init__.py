"""The doctor: checks an installation and a memory, and rebuilds what can be derived from the text."""

from vector_memory.maintenance.doctor.examination import Doctor

__all__ = ["Doctor"]
