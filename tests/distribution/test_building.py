"""What is in the wheel and in the sdist."""

import hashlib
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import vector_memory
from distribution.building import ROOT, Distributions, uv
from vector_memory.embedding.known import E5_SMALL, MINILM, KnownModel
from vector_memory.embedding.model_folder import BIAS_FILE

pytestmark = pytest.mark.distribution


def source_files() -> set[str]:
    """Return the files of the package in the source tree, without caches."""
    source = ROOT / "src"
    paths = {path.relative_to(source) for path in (source / "vector_memory").rglob("*") if path.is_file()}
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_the_wheel_contains_exactly_the_files_of_the_package(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == source_files()
    assert "vector_memory/py.typed" in held


def test_the_sdist_contains_only_what_a_build_needs(distributions: Distributions) -> None:
    with tarfile.open(distributions.sdist) as archive:
        held = {Path(*Path(name).parts[1:]).as_posix() for name in archive.getnames()}
    about = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert held == about | {f"src/{name}" for name in source_files()}


def test_the_sdist_and_the_source_tree_build_the_same_wheel(distributions: Distributions, tmp_path: Path) -> None:
    uv("build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT)
    assert next(tmp_path.glob("*.whl")).read_bytes() == distributions.wheel.read_bytes()


def test_the_wheel_is_small(distributions: Distributions) -> None:
    assert distributions.wheel.stat().st_size < 2**20
    with zipfile.ZipFile(distributions.wheel) as archive:
        # The description of all tools in all forms is the only larger one.
        assert all(file.file_size < 2**18 or file.filename.endswith("/early.json") for file in archive.infolist())


def test_the_licence_comes_with_the_wheel(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        licence = next(name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert metadata(distributions.wheel)["License-Expression"] == "MIT"


@pytest.mark.parametrize(
    ("wheel", "model", "licence"),
    [("model", MINILM, "Apache-2.0"), ("multilingual", E5_SMALL, "MIT")],
    ids=["all-MiniLM-L6-v2", "multilingual-e5-small"],
)
def test_a_model_is_the_known_one_has_its_own_licence_and_requires_nothing(
    distributions: Distributions, wheel: str, model: KnownModel, licence: str
) -> None:
    file, folder = getattr(distributions, wheel), f"{model.package}/{model.description.name}"
    official = {name: digest for name, digest in model.official[0].sha256.items() if name != BIAS_FILE}
    with zipfile.ZipFile(file) as archive:
        found = {name: hashlib.sha256(archive.read(f"{folder}/{name}")).hexdigest() for name in official}
        [text] = [name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
        assert archive.read(text).lstrip().startswith({"MIT": b"MIT", "Apache-2.0": b"Apache"}[licence] + b" License")
    assert found == official
    assert metadata(file)["License-Expression"] == licence
    assert metadata(file)["Requires-Dist"] is None


def test_the_version_is_that_of_the_code(distributions: Distributions) -> None:
    assert metadata(distributions.wheel)["Version"] == vector_memory.__version__


def test_the_description_is_the_readme(distributions: Distributions) -> None:
    about = metadata(distributions.wheel)
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload(decode=True) == (ROOT / "README.md").read_bytes()
