"""Says in plain words whether an installation and a memory are healthy, and mends what the text allows."""

from pathlib import Path

from rich.console import Console

from vector_memory.doctor.examining import Doctor
from vector_memory.doctor.output import Output
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.settings import Settings


def run_doctor(path: Path, settings: Settings, *, as_json: bool = False, fix: bool = False) -> bool:
    """Examine the memory at `path`, mend it if `fix`, print the findings, and return whether all is well."""
    output = Output(Console(stderr=as_json))
    doctor = Doctor(path, settings, EmbeddingModel(lambda: load_embedder(settings)))
    mended: list[str] = []
    with output.waiting("Examining"):
        report = doctor.examine()
    if fix and report.fixable():
        with output.progress() as progress:
            report, mended = doctor.mend_all(report, progress)
    (output.json if as_json else output.report)(report, mended)
    return report.healthy
