"""From the results to the tables of the pages, each of which stands between marks that name it.

A run that is older than the code that it is about is marked with a dagger.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from provenance import RESULTS, code_digest

BLOCK = re.compile(r"(<!-- (public [\w ]+): begin -->\n).*?(<!-- \2: end -->)", re.DOTALL)
STALE = "†"
NOTE = f"{STALE} Run before the last change of the code that ranks."

DEFAULT = "default"
OURS = "vector-memory"
UNGATED = ("default without the gate", "default, nothing left out")
PLAIN = ("original design", "one vector for each text", "BM25")
SHOWN_MISSES = 20
PRECISION = "precisionmembench"

FIGURES = Path(__file__).parents[1] / "performance" / "figures.json"

Results = Mapping[str, dict[str, Any]]


def filled(text: str, folder: Path = RESULTS) -> str:
    """Return a page with its tables made of the results. Raises KeyError if a mark names no table."""
    every = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}
    return BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]](every)}\n{found[3]}", text)


def sets(results: Results) -> str:
    """Say what was measured, when, and with what."""
    rows = [
        [
            marked(name, result),
            f"{result['documents']:,}",
            f"{len(result['questions']):,}",
            f"{result['scopes']:,}",
            result["stored as"].replace("_", " "),
            result["run"]["date"],
            f"`{result['run']['commit of the package'][:8]}`",
        ]
        for name, result in ranked(results).items()
    ]
    heads = ["set", "documents", "questions", "scopes", "stored as", "run (UTC)", "package at"]
    return noted("\n\n".join([machines(results.values()), table(heads, rows)]), results.values())


def machines(results: Iterable[dict[str, Any]]) -> str:
    """Say what the runs were made with, in one sentence for each kind of machine and versions."""
    said = []
    for result in results:
        run = result["run"]
        versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
        said.append(
            f"{run['model']}; {run['machine']['processor']}, {run['machine']['CPUs']} cores, "
            f"{run['machine']['memory, GB']} GB; {versions}."
        )
    return "\n\n".join(dict.fromkeys(said))


def by_metric(metric: str) -> Callable[[Results], str]:
    """Return what makes the table of a metric: a row for each way, a column for each set, and the mean."""

    def made(results: Results) -> str:
        chosen = ranked(results)
        rows = [
            [
                bold(way),
                *(share(each["ways"][way][metric]) for each in chosen.values()),
                share(mean(chosen, way, metric)),
            ]
            for way in ways_of(chosen)
        ]
        return noted(table([metric, *(marked(*each) for each in chosen.items()), "mean"], rows), chosen.values())

    return made


def differences(results: Results) -> str:
    """Say how much better the default is than each other way, with 95 % intervals."""
    chosen = ranked(results)
    rows = []
    for way in ways_of(chosen)[1:]:
        better = [each["ways"][way]["default better by"] for each in chosen.values()]
        rows.append([way, *(f"{middle:+.3f} ({low:+.3f} to {high:+.3f})" for middle, low, high in better)])
    return table(["nDCG@10: default less", *(marked(*each) for each in chosen.items())], rows)


def kinds(results: Results) -> str:
    """Return the figures of the default for each kind of question, and nDCG@10 of the plain ways."""
    metrics = ("any@5", "all@5", "recall@5", "recall@10", "nDCG@10")
    rows = [
        [
            f"{marked(name, result)}: {kind}",
            str(figures["questions"]),
            *(share(figures[DEFAULT][metric]) for metric in metrics),
            *(share(figures[way]["nDCG@10"]) for way in PLAIN),
        ]
        for name, result in ranked(results).items()
        for kind, figures in result["kinds"].items()
    ]
    return table(["kind", "questions", *metrics, *(f"nDCG@10, {way}" for way in PLAIN)], rows)


def served(results: Results) -> str:
    """Say what an agent reads that asks the real server."""
    rows = [
        [
            f"{marked(name, result)}, {asked}",
            *(share(answer[each]) for each in ("any", "all", "precision")),
            f"{answer['results']:g}",
            f"{answer['tokens']:,}",
            f"{answer['tokens, 95th percentile']:,}",
        ]
        for name, result in ranked(results).items()
        for asked, answer in result["served"]["answers"].items()
    ]
    heads = ["set, answer", "one right text in the answer", "all right texts", "precision"]
    return table([*heads, "results, median", "tokens, median", "tokens, 95th percentile"], rows)


def servers(results: Results) -> str:
    """Say what other servers find, and what their answers cost."""
    rows = [
        [
            marked(name.removeprefix("servers_"), result),
            f"**{server}**" if server == OURS else server,
            *(share(figures[each]) for each in ("nDCG@10", "any@5", "any", "all", "precision")),
            f"{figures['tokens']:,}",
            f"{figures['stored']:,} of {result['documents']:,}",
            *(f"{figures[each]:,.0f}" for each in ("a store, ms", "a search, ms", "memory, MB")),
        ]
        for name, result in results.items()
        if "servers" in result
        for server, figures in result["servers"].items()
    ]
    heads = ["set", "server", "nDCG@10", "any@5", "one right text in the answer", "all right texts", "precision"]
    heads += ["tokens, median", "stored", "a store, ms", "a search, ms", "memory, MB"]
    untold = [
        f"{result['asked'] - result['tellable']} of the {result['asked']} questions of {name.removeprefix('servers_')}"
        for name, result in results.items()
        if "servers" in result and result["tellable"] < result["asked"]
    ]
    said = f"No answer counts as right for {', '.join(untold)}: each line of their right texts is in others, too."
    return "\n\n".join([table(heads, rows), *([said] if untold else [])])


def cost(results: Results) -> str:
    """Say what storing and searching cost."""
    chosen = ranked(results)
    rows = [
        [
            marked(name, result),
            f"{result['storing 1,000 characters, processor ms']:,.0f}",
            f"{result['file, MB']:,.1f}",
            *(f"{each:.0f}" for each in result["a search, processor ms"].values()),
        ]
        for name, result in chosen.items()
    ]
    ways = next(iter(chosen.values()))["a search, processor ms"]
    return table(["set", "storing 1,000 characters, ms", "file, MB", *(f"a search, {way}, ms" for way in ways)], rows)


def misses(results: Results) -> str:
    """Count the questions of which nothing right is among the first ten, and name some that the default misses."""
    rows = []
    for name, result in ranked(results).items():
        questions = result["questions"]
        missed = [each for each, found in questions.items() if not found[DEFAULT]]
        only = [each for each in missed if any(questions[each][way] for way in PLAIN)]
        counts = [str(sum(not found[way] for found in questions.values())) for way in (DEFAULT, *PLAIN)]
        named = ", ".join(f"`{each}`" for each in only[:SHOWN_MISSES])
        rows.append([marked(name, result), *counts, str(len(only)), named])
    heads = [f"{way}: none of ten" for way in (DEFAULT, *PLAIN)]
    return table(["set", *heads, "missed by the default only", f"of these, up to {SHOWN_MISSES}"], rows)


def precision(results: Results) -> str:
    """Return the figures of PrecisionMemBench's harness, ours and those that its repository publishes."""
    if PRECISION not in results:
        return "Not run yet."
    result = results[PRECISION]
    named = {f"**{marked('vector-memory', result)}, {name}**": each for name, each in result["ways"].items()}
    published = sorted(result["published"].items(), key=lambda each: -each[1]["passed"])
    rows = [
        [
            name,
            share(each["precision"]),
            share(each["recall"]),
            str(each["exactly"]),
            share(each["mean precision"]),
            f"{each['passed']} of {each['cases']}",
            f"{each['session passed']} of {each['session cases']}",
        ]
        for name, each in [*named.items(), *((f"{name}, as published", each) for name, each in published)]
    ]
    found = next(iter(named.values()))["something to find"]
    heads = ["system", f"precision of {found}", f"recall of {found}", "exactly", "mean precision", "passed", "session"]
    return noted(table(heads, rows), [result])


def means(results: Results) -> str:
    """Return the means over all sets in a sentence, for a page that has no room for more."""
    chosen = ranked(results)
    here, original, whole, words = (share(mean(chosen, way, "nDCG@10")) for way in (DEFAULT, *PLAIN))
    dagger = f" {STALE}" if any(map(is_stale, chosen.values())) else ""
    said = f"{original} the original server's design, {whole} one vector for each text, {words} BM25"
    return f"Mean nDCG@10 over {len(chosen)} sets{dagger}: **{here}** here, {said}."


def others(results: Results) -> str:
    """Return the means of each server over the sets on which all ran, in a sentence for a page that has little room."""
    ran = {name: result for name, result in results.items() if "servers" in result}
    named = list({server: None for result in ran.values() for server in result["servers"]})
    chosen = {name: result for name, result in ran.items() if len(result["servers"]) == len(named)}
    said = []
    for server in named:
        figures = [each["servers"][server] for each in chosen.values()]
        found, tokens = (fmean(each[metric] for each in figures) for metric in ("any@5", "tokens"))
        if server == OURS:
            said.append(f"**{share(found)}** of the questions here ({tokens:,.0f} tokens an answer)")
        else:
            said.append(f"{share(found)} with {server} ({tokens:,.0f})")
    dagger = f" {STALE}" if any(map(is_stale, chosen.values())) else ""
    return f"One of the first five texts of an answer is right in {', '.join(said)}: {len(chosen)} public sets{dagger}."


def modes(results: Results) -> str:
    """Return the means over all sets of the store's own modes and of what they are compared with."""
    chosen = ranked(results)
    metrics = ("nDCG@10", "recall@5")
    rows = [[bold(way), *(share(mean(chosen, way, metric)) for metric in metrics)] for way in ways_of(chosen)]
    return noted(table([f"mean of {len(chosen)} sets", *metrics], rows), chosen.values())


def ablation(results: Results) -> str:
    """Say what each part of the default search adds in the sets that were measured without the gate too."""
    chosen = {name: one for name, one in ranked(results).items() if UNGATED[0] in one["ways"]}
    metrics = ("nDCG@10", "recall@10", "any@5", "MRR@10")
    rows = [
        [marked(name, result), bold(way), *(share(each[metric]) for metric in metrics), str(each["empty"])]
        for name, result in chosen.items()
        for way, each in result["ways"].items()
    ]
    return noted(table(["set", "way", *metrics, "empty answers"], rows), chosen.values())


def tests(_results: Results) -> str:
    """Say how long the tests take, if the run measured it."""
    run = json.loads(FIGURES.read_text("utf-8"))
    return f"They take {run['tests']['minutes']:.0f} minutes on the same machine." if "tests" in run else ""


def figures(_results: Results) -> str:
    """Say what the server takes, of one run, beside what the original server's documents say."""
    run = json.loads(FIGURES.read_text("utf-8"))
    machine, start, receipt = run["machine"], run["start"][OURS], run["receipt"]["before the vectors"]
    passages = max(map(int, run["search"]))
    scopes = run["search"][str(passages)]["searches"]
    receipts = [receipt[f"receipt of a {text}, processor time"] for text in ("note", "report of 5,000 tokens")]
    searches = [scopes[scope]["fine"] for scope in ("session of about 2,500", "one kind, everything")]
    rows = [
        ["start, until the list of tools is answered", f"{start['tools/list answered']['p50'] / 1000:.1f} s", "5-7 s"],
        ["start, until the first search is answered", f"{start['first search answered']['p50'] / 1000:.1f} s", "5-7 s"],
        ["memory after a search", f"{start['MB, after a search']['p50']:.0f} MB", "160-440 MB"],
        [
            "receipt of a note / of a report of 5,000 tokens, processor time",
            " / ".join(f"{each['p50']:.0f}" for each in receipts) + " ms",
            "1-3 s",
        ],
        [
            f"fine search of {passages:,} passages, one session / all, processor time",
            " / ".join(f"{each['p50'] + each['embedding p50']:.0f}" for each in searches) + " ms",
            "200-500 ms",
        ],
        [
            "tokens of the list of tools, `core` / `full`",
            " / ".join(f"{run['tools'][profile]['tokens']:,}" for profile in ("core", "full")),
            "",
        ],
    ]
    said = f"commit `{machine['commit']}`, {machine['CPUs']} CPUs ({machine['processor']})"
    head = ["", "vector-memory", "original server, as documented"]
    return f"{table(head, rows)}\n\nMedians of one run: {said}, load {machine['load before']} before it."


TABLES: dict[str, Callable[[Results], str]] = {
    "public sets": sets,
    "public ranking": by_metric("nDCG@10"),
    "public differences": differences,
    "public recall": by_metric("recall@5"),
    "public recall at ten": by_metric("recall@10"),
    "public any": by_metric("any@5"),
    "public kinds": kinds,
    "public served": served,
    "public servers": servers,
    "public others": others,
    "public cost": cost,
    "public misses": misses,
    "public precision": precision,
    "public means": means,
    "public modes": modes,
    "public figures": figures,
    "public ablation": ablation,
    "public tests": tests,
}


def ranked(results: Results) -> Results:
    """Return the results that have rankings."""
    return {name: result for name, result in results.items() if "ways" in result and name != PRECISION}


def ways_of(results: Results) -> list[str]:
    """Return the names of the ways, in their order, without those that show what the gate changes."""
    return [way for way in next(iter(results.values()))["ways"] if way not in UNGATED]


def mean(results: Results, way: str, metric: str) -> float:
    """Return the mean of a metric over the sets."""
    return float(fmean(result["ways"][way][metric] for result in results.values()))


def is_stale(result: dict[str, Any]) -> bool:
    """Return whether the code that ranks has changed since a run."""
    return bool(result["run"]["code"] != code_digest())


def marked(name: str, result: dict[str, Any]) -> str:
    """Return a name, with a dagger if its run is older than the code."""
    return f"{name} {STALE}" if is_stale(result) else name


def noted(text: str, results: Iterable[dict[str, Any]]) -> str:
    """Return a text with what the dagger means, if one of the results has it."""
    return f"{text}\n\n{NOTE}" if any(map(is_stale, results)) else text


def bold(way: str) -> str:
    """Return the name of a way; the default stands out."""
    return f"**{way}**" if way == DEFAULT else way


def share(value: float) -> str:
    """Return a share with three digits."""
    return f"{value:.3f}".removeprefix("0")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *rows])
