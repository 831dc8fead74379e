"""Benchmarks are run rarely: what they use of the package may not disappear unnoticed."""

import ast
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import pytest

from imported import imported
from vector_memory.embedding.toy_engine import ToyEngine

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the modules of the package that a file imports from, with the names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "vector_memory":
            yield from ((str(node.module), alias.name) for alias in node.names)


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_a_benchmark_imports_only_what_the_package_has(path: Path) -> None:
    for module, name in imports(path):
        assert hasattr(import_module(module), name) or import_module(f"{module}.{name}")


@pytest.fixture
def retrieval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests import the modules of benchmarks/retrieval."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "retrieval"))


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests import the modules of benchmarks/public, and those of benchmarks/retrieval, which they use."""
    for folder in ("retrieval", "public"):
        monkeypatch.syspath_prepend(str(BENCHMARKS / folder))


@pytest.mark.usefixtures("public")
def test_the_public_file_of_locomo_is_read_by_turns_and_by_sessions(tmp_path: Path) -> None:
    sample = {
        "sample_id": "c",
        "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "Hi!"},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "Look.", "blip_caption": "a red kite"},
            ],
        },
        "qa": [
            {"question": "What did Bo show?", "evidence": ["D1:2"], "category": 4},
            {"question": "Never said?", "evidence": ["D1:1"], "category": 5},
            {"question": "Where?", "evidence": [], "category": 1},
        ],
    }
    (tmp_path / "locomo10.json").write_text(json.dumps([sample]))
    turns = import_module("locomo").read(tmp_path / "locomo10.json", by_turns=True)
    assert turns.documents == {"c:D1:1": "**Ana:** Hi!", "c:D1:2": "**Bo:** Look. [shares a picture: a red kite]"}
    (question,) = turns.questions
    assert (question.name, question.scope, question.grades) == ("c:q0", "c", {"c:D1:2": 1.0})
    assert question.kind == "single-hop"
    sessions = import_module("locomo").read(tmp_path / "locomo10.json", by_turns=False)
    assert sessions.scopes == {"c": ["c:S1"]}
    assert sessions.documents["c:S1"].startswith("# Session 1: 1:56 pm on 8 May, 2023\n\n**Ana:** Hi!")
    assert [each.grades for each in sessions.questions] == [{"c:S1": 1.0}]


@pytest.mark.usefixtures("public")
def test_the_public_file_of_longmemeval_is_read_by_sessions_and_by_turns(tmp_path: Path) -> None:
    item = {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "Which bike?",
        "haystack_session_ids": ["s1", "s2"],
        "haystack_sessions": [
            [{"role": "user", "content": "I bought a bike.", "has_answer": True}, {"role": "assistant", "content": ""}],
            [{"role": "user", "content": "Hm."}],
        ],
        "answer_session_ids": ["s1"],
    }
    (tmp_path / "s.json").write_text(json.dumps([item, {**item, "question_id": "q2_abs"}]))
    sessions = import_module("longmemeval").read(tmp_path / "s.json", by_turns=False)
    assert sessions.scopes == {"q1": ["s1", "s2"]}
    assert sessions.documents["s1"].startswith("**user:** I bought a bike.")
    assert [(each.name, each.kind, each.grades) for each in sessions.questions] == [
        ("q1", "multi-session", {"s1": 1.0})
    ]
    turns = import_module("longmemeval").read(tmp_path / "s.json", by_turns=True)
    assert turns.scopes == {"q1": ["s1:1", "s2:1"]}
    assert [each.grades for each in turns.questions] == [{"s1:1": 1.0}]


@pytest.mark.usefixtures("public")
def test_a_folder_in_the_form_of_beir_is_read(tmp_path: Path) -> None:
    corpus = [{"_id": "d1", "title": "Kites", "text": "They fly."}, {"_id": "d2", "title": "", "text": "A lease."}]
    queries = [{"_id": "q1", "text": "What flies?"}, {"_id": "q2", "text": "In training only."}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n")
    judged = import_module("beir").read(tmp_path)
    assert judged.documents == {"d1": "Kites\n\nThey fly.", "d2": "A lease."}
    assert [(each.name, each.text, each.grades) for each in judged.questions] == [("q1", "What flies?", {"d1": 2.0})]


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (["a", "x", "b"], (1.0, 1.0, 1.0)),
        (["a", "x", "y", "z", "w", "b"], (1.0, 1.0, 0.0)),
        (["x", "y", "z", "v", "w", "a"], (0.5, 0.0, 0.0)),
    ],
)
def test_only_the_first_five_count_for_any_and_all(found: list[str], expected: tuple[float, ...]) -> None:
    measuring = import_module("measuring")
    values = dict(zip(measuring.METRICS, measuring.metrics(found, {"a": 1.0, "b": 1.0}), strict=True))
    assert (values["recall@10"], values["any@5"], values["all@5"]) == expected


@pytest.mark.usefixtures("public")
def test_a_public_benchmark_measures_every_way_and_the_real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", "toy")
    judged, measuring, toy = import_module("judged"), import_module("measuring"), ToyEngine(384)
    documents = {"d1": "The red kite flies over the hill.", "d2": "A lease lasts two minutes.", "d3": "Nothing else."}
    asked = [judged.Question("where does the red kite fly", "s", {"d1": 1.0}, name="q1", kind="short")]
    figures = measuring.measure(judged.JudgedSet("j", documents, {"s": list(documents)}, asked), toy, toy)
    assert figures["ways"][measuring.BM25]["nDCG@10"] == figures["ways"][measuring.DEFAULT]["nDCG@10"] == 1
    assert figures["questions"]["q1"][measuring.ORIGINAL] == [1]
    assert figures["kinds"]["short"]["questions"] == 1
    for answer in figures["served"]["answers"].values():
        assert (answer["any"], answer["all"]) == (1, 1)
        assert 0 < answer["tokens"] <= 500


@pytest.mark.usefixtures("public")
def test_a_run_older_than_the_code_that_ranks_is_marked_in_the_tables(tmp_path: Path) -> None:
    tables = import_module("result_tables")
    page = "<!-- public ranking: begin -->\n<!-- public ranking: end -->\n"
    source = next(tables.RESULTS.glob("locomo10_turns.json"))
    result = json.loads(source.read_text("utf-8"))
    result["run"]["code"] = tables.code_digest()
    (tmp_path / source.name).write_text(json.dumps(result))
    assert tables.STALE not in tables.filled(page, tmp_path)
    result["run"]["code"] = "older"
    (tmp_path / source.name).write_text(json.dumps(result))
    marked = tables.filled(page, tmp_path)
    assert f"| locomo10_turns {tables.STALE} |" in marked
    assert tables.NOTE in marked


@pytest.mark.usefixtures("public")
def test_an_answer_of_any_server_shows_the_texts_of_which_it_has_a_long_line_or_all() -> None:
    servers, both = import_module("other_servers"), "The same line, which is in both of two texts."
    texts = {
        "long": f"# Exports\n\nThe nightly export writes Parquet files into the bucket.\n{both}",
        "other": f"{both}\nThe queue has a lease that lasts two minutes, no longer.",
        "short": "A red kite.",
        "unseen": "Something else that nobody asked for, in a text of its own.",
    }
    shown = [
        "Found 3:\n1. The queue  has a lease that lasts two minutes, no...\n2. A red kite.",
        f"The nightly export writes Parquet files into the bucket.\n{both}",
    ]
    assert list(servers.texts_in(shown, texts)) == ["other", "short", "long"]
    assert list(servers.texts_in([both, "A red"], texts)) == []
    judged = import_module("judged")
    asked = [judged.Question("q", "s", {name: 1.0}) for name in ("long", "same")]
    documents = {**texts, "same": both}
    assert servers.tellable(judged.JudgedSet("j", documents, {"s": list(documents)}, asked)) == 1


def test_mem0_stores_texts_as_they_are_and_answers_with_what_it_found() -> None:
    server, memory = imported(BENCHMARKS / "peers" / "mem0_server.py"), Mock()
    memory.search.return_value = {"results": ["é"]}
    memory.add.return_value = {"results": []}
    server.result(memory, "tools/call", {"name": "add", "arguments": {"text": "A red kite."}})
    memory.add.assert_called_once_with("A red kite.", infer=False, user_id="user")
    answer = server.result(memory, "tools/call", {"name": "search", "arguments": {"query": "kite", "limit": 3}})
    assert json.loads(answer["content"][0]["text"]) == {"results": ["é"]}


@pytest.mark.usefixtures("public")
def test_figures_of_other_servers_do_not_make_ours_look_newer() -> None:
    added, known = import_module("other_servers").added, {"run": "old", "servers": {"vector-memory": 1, "other": 1}}
    assert added(known, "new", {"other": 2}) == {"run": "old", "servers": {"vector-memory": 1, "other": 2}}
    assert added(known, "new", {"vector-memory": 2})["run"] == "new"
    assert added({}, "new", {"other": 2}) == {"run": "new", "servers": {"other": 2}}


@pytest.mark.usefixtures("public")
def test_servers_are_compared_over_the_sets_on_which_all_of_them_ran() -> None:
    tables, ours, other = import_module("result_tables"), {"any@5": 0.5, "tokens": 10}, {"any@5": 0.25, "tokens": 20}
    run = {"code": tables.code_digest()}
    both = {"run": run, "servers": {"vector-memory": ours, "other": other}}
    alone = {"run": run, "servers": {"vector-memory": {"any@5": 1.0, "tokens": 90}}}
    said = tables.others({"servers_a": alone, "servers_b": both, "ranked": {"run": run}})
    assert "**.500** of the questions here (10 tokens an answer), .250 with other (20): 1 public sets." in said


@pytest.mark.usefixtures("retrieval")
def test_every_precision_case_names_memories_of_its_own_half_alone() -> None:
    data = json.loads((BENCHMARKS / "retrieval" / "questions" / "precision.json").read_text("utf-8"))
    memories, cases = import_module("cases").precision_cases()
    assert len(set(memories.values())) == len(memories) == sum(map(len, data["memories"].values())) >= 150
    assert len({case.question for case in cases}) == len(cases) == 60
    for case in cases:
        assert case.right <= data["memories"][case.half].keys()
        assert (len(case.right) > 0) == (case.sort in {"single", "compound"})


@pytest.mark.usefixtures("retrieval")
def test_each_half_has_twenty_corrections_whose_texts_are_all_different() -> None:
    pairs, others = import_module("cases").corrections()
    texts = [text for pair in pairs for text in (pair.question, pair.fact, pair.correction, pair.decoy)] + others
    assert len(set(texts)) == len(texts)
    assert [sum(pair.half == half for pair in pairs) for half in ("construction", "apart")] == [20, 20]
    assert len(others) >= 30


@pytest.mark.usefixtures("retrieval")
def test_the_benchmark_of_precision_counts_what_came() -> None:
    precision, case = import_module("precision"), import_module("cases").Case("apart", "single", "q", frozenset("ab"))
    answered = precision.Answered(case, [("a", "strong"), ("x", "related"), ("y", "related")], "strong")
    assert (answered.precision(strong=False), answered.recall(strong=False)) == (1 / 3, 0.5)
    assert (answered.precision(strong=True), answered.recall(strong=True)) == (1.0, 0.5)


@pytest.mark.usefixtures("retrieval")
def test_the_benchmarks_of_our_own_cases_run_on_a_small_memory() -> None:
    cases, precision, corrected = map(import_module, ("cases", "precision", "corrected"))
    memories, asked = cases.precision_cases()
    (answered,) = precision.answers(dict(list(memories.items())[:3]), asked[:1], ToyEngine(32))
    assert len(answered.found) <= 3
    pairs, others = cases.corrections()
    two = list(corrected.answers(pairs[:2], others[:1], ToyEngine(32)))
    assert all(each.corrects for each in two)


@pytest.mark.usefixtures("retrieval")
def test_the_memory_of_a_project_holds_every_answer_and_grows_without_changing() -> None:
    project = import_module("project")
    small, large = project.reports(project.SIZE), project.reports(400)
    texts = {report.text for report in small}
    assert len(texts) == project.SIZE
    assert texts < {report.text for report in large}
    assert len({report.text for report in large}) == 400
    created = {report.text: report.created for report in small}
    answerable = [asked for asked in project.questions() if asked.correction]
    assert len(answerable) == 20
    assert all(created[asked.fact] < created[asked.correction] for asked in answerable)
    assert len(project.questions()) == 26


@pytest.mark.usefixtures("retrieval")
def test_an_agent_is_counted_what_its_client_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", "toy")
    project, agents = import_module("project"), import_module("agents")
    path = project.build(tmp_path, 40, ToyEngine(384))
    asked = [project.questions()[0], project.questions()[-1]]
    for form in agents.FORMS:
        first, last = agents.answers(path, form, asked)
        assert first.fact == 1
        assert last.correction is None
        assert 0 < first.content < first.read <= first.sent
    assert len(agents.cells([first, last])) == len(agents.HEADS)


def test_the_page_on_scale_has_the_table_of_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    assert import_module("capacity").table() in (BENCHMARKS.parent / "docs/scale.md").read_text(encoding="utf-8")
