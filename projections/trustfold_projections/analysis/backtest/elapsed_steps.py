"""`elapsed/1` after each entry of a growing ledger, without starting anew each time.

The law in `laws.elapsed` computes one state from a whole ledger; here the values after every
sample are kept, so that a sample that comes last costs one update, and a correction or a late
sample costs those from its place on. The values are the law's, bit for bit.
"""

from __future__ import annotations

from bisect import bisect_left

from trustfold_projections.laws.elapsed import EVIDENCE, Five, Sample, alpha_of, moved
from trustfold_projections.laws.scoring import WITHOUT_EVIDENCE, raw_score_of
from trustfold_schemas.ledger import Entry

Place = tuple[int, str]


class ElapsedSteps:
    """One subject's samples by (occurred, trace_id), and the values after each."""

    def __init__(self) -> None:
        self._samples: dict[Place, Sample] = {}
        self._places: list[Place] = []
        self._values: list[Five] = []

    def take(self, entry: Entry) -> None:
        """Take in an entry that counts."""
        if entry.kind not in EVIDENCE:
            return
        place = (entry.occurred, entry.trace_id or "")
        sample = self._samples.get(place)
        at = bisect_left(self._places, place)
        if sample is None:
            sample = self._samples[place] = Sample(*place, [0] * 5, [0] * 5, 0)
            self._places.insert(at, place)
        sample.add(entry)
        del self._values[at:]

    def raw_score(self) -> float:
        """raw_score after all samples so far."""
        self._catch_up()
        return raw_score_of(self._values[-1] if self._values else WITHOUT_EVIDENCE)

    def _catch_up(self) -> None:
        for at in range(len(self._values), len(self._places)):
            sample = self._samples[self._places[at]]
            before = self._values[-1] if self._values else WITHOUT_EVIDENCE
            last = self._last_before(at)
            if not sample.n_samples:
                self._values.append(before)
                continue
            alpha = 0.0 if last is None else alpha_of(sample.occurred - last)
            self._values.append(moved(before, sample, alpha))

    def _last_before(self, at: int) -> int | None:
        while at:
            at -= 1
            place = self._places[at]
            if self._samples[place].n_samples:
                return place[0]
        return None
