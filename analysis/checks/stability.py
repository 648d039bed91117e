"""Whether equal input gives equal output: alone before any load, then under load, beside faults, and in every batch.

On a server that does not claim it, and whose fault-free load did change texts, only requests that were alone are compared:
what differs in company there is counted and named, and is neither a fault nor a proof of health.
"""

from collections import Counter, defaultdict
from hashlib import sha256

from analysis.checks.golden import agree, comparable, differences, exactness, fault_free_texts, goldens
from analysis.checks.requests import end_unix_s, shown, traces_by_id, where
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Endpoint, Outcome, Role

ALONE = frozenset({Role.WARM_UP, Role.REFERENCE, Role.FOLLOW_UP})


def _output(evidence: Evidence) -> Finding:
    found, count = differences(evidence, evidence.records)
    if not count:
        return unknown("no text could be compared with a reference of its prompt")
    references = goldens(evidence).by_key.values()
    empty = sum(not record.text.strip() for record in references)
    if 2 * empty > len(references):
        return unknown(f"{empty} of {len(references)} references have no text, so that nothing shows in others that repeat it")
    level = exactness(evidence)
    if not level.exact:
        return _inexact(evidence, found, count, level.why)
    wrong = [_described(evidence, record, how) for record, how in found] + _endless(evidence)
    if wrong:
        stages = Counter(record.stage for record, _ in found)
        often = ", ".join(f"{number} in {stage}" for stage, number in stages.most_common())
        return failed(
            f"{len(found)} of {count} texts differ from the reference of their prompt ({often or 'beyond its end'})", *shown(wrong)
        )
    return passed(f"all {count} texts repeat the reference of their prompt ({level.why})")


def _inexact(evidence: Evidence, found: list[tuple[RequestRecord, str]], count: int, why: str) -> Finding:
    alone = [(record, how) for record, how in found if record.role in ALONE and not _seen_before(evidence, record)]
    lines = [_described(evidence, record, how) for record, how in alone or found]
    in_company = f"{sum(record.role not in ALONE for record, _ in found)} texts made in company differ and are not judged"
    if alone:
        return unknown(f"{len(alone)} texts made alone differ from all that this server said before; {why}", *shown(lines))
    return passed(f"texts made alone agree, of {count} compared; {in_company}: {why}", *shown(lines))


def _seen_before(evidence: Evidence, record: RequestRecord) -> bool:
    return record.text in fault_free_texts(evidence, record.prompt, record.endpoint)


def _described(evidence: Evidence, record: RequestRecord, how: str) -> str:
    trace = traces_by_id(evidence).get(record.request_id)
    batch = f", batch up to {trace.decode_batch_size_max}" if trace and trace.decode_batch_size_max else ""
    digest = sha256(record.text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return f"{where(record)}, prompt {record.prompt!r}, text {digest}{batch}: {how}"


def _endless(evidence: Evidence) -> list[str]:
    """Answers that went on beyond their reference and do not agree with the longest of their prompt."""
    by_input: dict[tuple[str, Endpoint], list[RequestRecord]] = defaultdict(list)
    for record in evidence.records:
        if comparable(record) and record.stream and record.text:
            by_input[record.prompt, record.endpoint].append(record)
    wrong = []
    for records in by_input.values():
        longest = max(records, key=lambda record: len(record.text))
        fixed = {record.max_tokens for record in records if record.outcome is Outcome.COMPLETED}
        others = (record for record in records if record.max_tokens not in fixed and record is not longest)
        wrong += [
            f"{where(record)} and {where(longest)}: two texts of one prompt part"
            for record in others
            if not agree(record.text, longest.text)
        ]
    return wrong


CANARY_CHARACTERS = 16
"""So many characters in a row of another prompt's answer, found nowhere in one's own, are no chance."""
LOOSE_CANARY_CHARACTERS = 48
"""Where batches may change texts, a fork may wander into a common phrase: ask for more."""


def _crosstalk(evidence: Evidence) -> Finding:
    length = CANARY_CHARACTERS if exactness(evidence).exact else LOOSE_CANARY_CHARACTERS
    canaries = _canaries(evidence, length)
    if len(set(canaries.values())) < 2:
        return unknown("fewer than two prompts have answers that tell them apart")
    found, count = differences(evidence, evidence.records)
    wrong = [line for record, _ in found if (line := _foreign(evidence, record, canaries, length))]
    if wrong:
        return failed(f"{len(wrong)} answers carry text of another request", *shown(wrong))
    return passed(f"none of {count} answers carries text of another prompt ({len(found)} differ from their reference)")


def _canaries(evidence: Evidence, length: int) -> dict[str, str]:
    """Pieces of fault-free answers and of prompts that belong to one prompt only, with its name."""
    owners: dict[str, set[str]] = defaultdict(set)
    for prompt, text in evidence.plan.prompts.items():
        texts = {text}.union(*(fault_free_texts(evidence, prompt, endpoint) for endpoint in Endpoint))
        for each in texts:
            for at in range(len(each) - length + 1):
                owners[each[at : at + length]].add(prompt)
    return {piece: next(iter(prompts)) for piece, prompts in owners.items() if len(prompts) == 1}


def _foreign(evidence: Evidence, record: RequestRecord, canaries: dict[str, str], length: int) -> str | None:
    for at in range(len(record.text) - length + 1):
        piece = record.text[at : at + length]
        owner = canaries.get(piece, record.prompt)
        if owner != record.prompt:
            return f"{where(record)}, prompt {record.prompt!r}, says {piece!r} of prompt {owner!r}; {_donor(evidence, record, owner)}"
    return None


def _donor(evidence: Evidence, record: RequestRecord, prompt: str) -> str:
    """The request that the text may have come from: one that was open at the same time, else the latest before."""
    earlier = [other for other in evidence.records if other.prompt == prompt and other.started_unix_s < end_unix_s(record)]
    if not earlier:
        return "no request of that prompt was sent before"
    return f"compare {where(max(earlier, key=end_unix_s))}"


OUTPUT = Check(id="stability.output", question="Is equal input equal output?", judge=_output)
CROSSTALK = Check(id="stability.crosstalk", question="Does any answer carry the text of another request?", judge=_crosstalk)
