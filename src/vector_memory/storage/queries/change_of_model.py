"""A change of the model (`vector-memory reembed`), which is recorded in the memory.

From its beginning, the new model is the current one: only its vectors are stored, memory by memory, and a memory lacks
vectors until it has all of these. Those of other models stay until all memories have them, for processes with these
models; then they are removed in small steps, so that writers do not have to wait.
"""

from typing import TYPE_CHECKING, cast

from vector_memory.domain import Fingerprint
from vector_memory.storage.connection import Queries
from vector_memory.storage.queries.passages import Model
from vector_memory.storage.queries.pending import IS_HELD, UNTIL, parameters_of
from vector_memory.storage.records import Lease

if TYPE_CHECKING:
    from vector_memory.storage.transactions import Reader, Writer

PASSAGES_PER_STEP = 200


class ChangeOfModel(Queries):
    """Begins and ends a change of the model. What changes anything needs a writer."""

    def __init__(self, reader: "Reader") -> None:
        super().__init__(reader.connection)
        self._vectors, self._writer = reader.vectors, cast("Writer", reader)

    def others(self) -> list[Model]:
        """Return the models whose vectors are to be removed when all memories have those of the current one."""
        return [model for model in self._vectors.models() if not model.is_current]

    def begin(self, fingerprint: Fingerprint) -> None:
        """Make a model the current one. What only some passages of a memory have of the one before is removed."""
        if fingerprint == self._vectors.fingerprint():
            return
        self._writer.discard_vectors(None)
        known = next((model for model in self._vectors.models() if model.fingerprint == fingerprint), None)
        if known is None:
            self._writer.add_model(fingerprint)
        else:
            self.connection.later("update embedding_models set is_current = (id = %(id)s)", {"id": known.id})
            self._writer.vectors.forget_models()
        self._writer.end_leases()

    def remove_step(self) -> bool:
        """Remove some vectors of models that are not current, so few that writers do not wait; False: none are left."""
        others = self.others()
        if not others:
            return False
        values = {"model": others[0].id, "limit": PASSAGES_PER_STEP}
        sql = "select id from memory_passages where model_id = %(model)s order by id limit %(limit)s"
        if found := self.connection.fetch_column(sql, values):
            self.connection.later("delete from memory_passages where id {among:ids}", {"ids": found})
            return True
        # Memories that the engine fails on are complete with the earlier model.
        sql = "update session_memories set embedding_model_id = null where embedding_model_id = %(model)s"
        self.connection.later(sql, values)
        self._writer.remove_room(others[0])
        self.connection.later("delete from embedding_models where id = %(model)s", values)
        self._writer.vectors.forget_models()
        return True

    def without_states(self) -> list[int]:
        """Return the memories that have all vectors, but not the states of all tokens."""
        sql = f"""
            select distinct m.id from memory_passages p join session_memories m on m.id = p.memory_id {{with_states}}
            where {{lacks_states}} and {self._vectors.passages_read} and not ({self._vectors.lacking.condition})
            order by m.id
        """
        return self.connection.fetch_column(sql)

    def take_lease(self, lease: Lease) -> bool:
        """Take or renew the right to work on all memories; False: another process has it."""
        sql = f"select 1 from upkeep where owner <> %(owner)s and {IS_HELD}"
        if self.connection.fetch_value(sql, {"owner": lease.owner}) is not None:
            return False
        self.connection.later(f"update upkeep set owner = %(owner)s, leased_until = {UNTIL}", parameters_of(lease))
        return True

    def release_lease(self, owner: str) -> None:
        """Let another process go on."""
        self.connection.later("update upkeep set leased_until = 0 where owner = %(owner)s", {"owner": owner})
