"""Whether each stream is well formed, and whether its tokens, its usage and its text say the same."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from analysis import ids
from analysis.checks.golden import HALF_CHARACTER, goldens
from analysis.checks.requests import broken_promises, completed, expected, shown, traces_by_id, where
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Endpoint, ErrorKind, Role, TerminalReason

FINISH = frozenset({"stop", "length", "content_filter", "tool_calls", "function_call"})
"""The finish reasons that OpenAI's schema knows."""


def _protocol(evidence: Evidence) -> Finding:
    streams = [record for record in evidence.records if record.stream and record.headers_s is not None]
    problems = {record.request_id: _problems(evidence, record) for record in evidence.records if record.problems}
    wrong = [f"{where(record)}: {'; '.join(problems[record.request_id])}" for record in evidence.records if problems.get(record.request_id)]
    broken = [one for one in evidence.records if one.error is ErrorKind.PROTOCOL and not one.problems and one.role is not Role.BAD]
    wrong += [f"{where(record)}: {record.detail or record.error}" for record in broken]
    wrong += _shared_ids(evidence.records) + _swapped_ids(evidence)
    if wrong:
        rules = Counter(problem.split(":")[0] for each in problems.values() for problem in each)
        most = ", ".join(f"{rule} ({count})" for rule, count in rules.most_common(4))
        return failed(f"{len(wrong)} answers break the stream protocol" + (f": {most}" if most else ""), *shown(wrong))
    if not completed(streams):
        return unknown("no stream was read to its end")
    return passed(f"{len(streams)} streams are well formed, {len(completed(streams))} of them to the end")


def _problems(evidence: Evidence, record: RequestRecord) -> list[str]:
    """Broken rules of one answer. A replacement character is no broken one where the whole answer of the same prompt has it too,
    or where nobody knows the whole one (a row of the catalogue has a prompt of its own): tokens of a vocabulary may be no text."""
    reference = goldens(evidence).by_key.get((record.prompt, record.endpoint, False))
    excused = ["characters:"] if reference is None or record.row is not None or HALF_CHARACTER in reference.text else []
    excused += [] if broken_promises(evidence) else ["kept_connection:"]
    return [problem for problem in record.problems if not problem.startswith(tuple(excused))]


def _shared_ids(records: Iterable[RequestRecord]) -> list[str]:
    """Requests that share a response id. A server with one constant id never claimed that it tells them apart."""
    by_id: dict[str, list[RequestRecord]] = defaultdict(list)
    for record in records:
        if record.response_id and record.role is not Role.BAD:
            by_id[record.response_id].append(record)
    if len(by_id) <= 1:
        return []
    return [f"response id {name!r} was given to {', '.join(map(where, group))}" for name, group in by_id.items() if len(group) > 1]


def _swapped_ids(evidence: Evidence) -> list[str]:
    """Answers under the id of another request of ours. An id that the server made up itself says nothing."""
    found = []
    for record in evidence.records:
        inside = ids.find(record.response_id or "", evidence.plan.nonce)
        if inside is not None and inside.request_id != record.request_id and record.role is not Role.BAD:
            found.append(f"{where(record)}: answered under the id of {inside.request_id}")
    return found


def _content(evidence: Evidence) -> Finding:
    streams = completed(record for record in expected(evidence) if record.stream)
    whole = completed(record for record in expected(evidence) if not record.stream)
    if not streams:
        return unknown("no normal stream completed, so there is nothing to count")
    wrong = [f"{where(record)}: {why}" for rule in _RULES for record in streams + whole for why in rule(evidence, record)]
    wrong += _more_than_asked(evidence) + _usage_came_and_went(streams + whole) + _extra_events(streams)
    wrong += _against_traces(evidence, streams + whole) + _prompt_counts(evidence, streams + whole) + _streamed_against_whole(evidence)
    if wrong:
        return failed(f"{len(wrong)} answers contradict themselves in tokens, usage or text", *shown(wrong))
    counted = sum(record.completion_tokens is not None for record in streams + whole)
    return passed(f"tokens, usage and text agree in {len(streams)} streams and {len(whole)} whole answers; {counted} came with usage")


def _finish_reason(evidence: Evidence, record: RequestRecord) -> Iterable[str]:
    if record.finish_reason not in FINISH:
        yield f"finish reason {record.finish_reason!r} is not one of OpenAI's"
    elif evidence.plan.target.ignore_eos and record.finish_reason != "length":
        yield f"finish reason {record.finish_reason!r}, though the end of sequence was to be ignored"


def _length(_: Evidence, record: RequestRecord) -> Iterable[str]:
    count, asked = record.completion_tokens, record.max_tokens
    if count is not None and asked is not None and record.finish_reason == "length" and count < asked:
        yield f"finish reason length after {count} of {asked} tokens by its own usage"


def _empty(_: Evidence, record: RequestRecord) -> Iterable[str]:
    if record.text and record.completion_tokens == 0:
        yield "text, and a usage of 0 tokens"
    if record.stream and record.text and record.token_events == 0:
        yield "text without an event that carried it"


_RULES: tuple[Callable[[Evidence, RequestRecord], Iterable[str]], ...] = (_finish_reason, _length, _empty)


def _more_than_asked(evidence: Evidence) -> list[str]:
    """Answers longer than `max_tokens`, whole or left, by usage or by the server's own trace."""
    traces = traces_by_id(evidence)
    found = []
    for record in evidence.records:
        trace = traces.get(record.request_id)
        counts = (record.completion_tokens, trace.completion_tokens if trace else None)
        most = max((count for count in counts if count is not None), default=0)
        if record.max_tokens is not None and record.role is not Role.BAD and most > record.max_tokens:
            found.append(f"{where(record)}: {most} tokens, and {record.max_tokens} were asked for")
    return found


def _usage_came_and_went(records: list[RequestRecord]) -> list[str]:
    """Answers without usage, or with it, unlike all the references of their kind."""
    kinds: dict[tuple[Endpoint, bool], set[bool]] = defaultdict(set)
    for record in records:
        if record.role is Role.REFERENCE:
            kinds[record.endpoint, record.stream].add(record.completion_tokens is not None)
    return [
        f"{where(record)}: usage {'missing' if record.completion_tokens is None else 'sent'}, unlike in the reference"
        for record in records
        if len(kinds[record.endpoint, record.stream]) == 1
        and (record.completion_tokens is not None) not in kinds[record.endpoint, record.stream]
    ]


def _extra_events(streams: list[RequestRecord]) -> list[str]:
    """Streams with more events than their tokens allow.

    Fewer events are legal, since several tokens may ride in one; a text that was lost shows in `stability.output`. More
    are legal as far as the fault-free streams go (a last event for text that was held back, say).
    """
    counted = [(record, record.token_events - record.completion_tokens) for record in streams if record.completion_tokens is not None]
    solo = [extra for record, extra in counted if record.role is Role.REFERENCE]
    usual = max([0, *solo])
    return [f"{where(record)}: {extra} more events with text than tokens" for record, extra in counted if solo and extra > usual]


def _against_traces(evidence: Evidence, records: list[RequestRecord]) -> list[str]:
    traces = traces_by_id(evidence)
    found = []
    for record in records:
        trace = traces.get(record.request_id)
        if trace is None or trace.completion_tokens is None or record.completion_tokens is None:
            continue
        slack = 1 if trace.reason is TerminalReason.COMPLETED_STOP else 0  # whether the end of sequence itself is a token differs
        if abs(trace.completion_tokens - record.completion_tokens) > slack:
            found.append(f"{where(record)}: usage says {record.completion_tokens} tokens, the server's trace {trace.completion_tokens}")
    return found


def _prompt_counts(evidence: Evidence, records: list[RequestRecord]) -> list[str]:
    """Prompts whose length changes from request to request, by usage or by the traces: some of it was lost, or came from elsewhere."""
    traces = traces_by_id(evidence)
    by_usage: dict[tuple[str, Endpoint], dict[int, str]] = defaultdict(dict)
    by_trace: dict[tuple[str, Endpoint], dict[int, str]] = defaultdict(dict)
    for record in records:
        trace = traces.get(record.request_id)
        if record.prompt_tokens is not None:
            by_usage[record.prompt, record.endpoint].setdefault(record.prompt_tokens, where(record))
        if trace is not None and trace.prompt_tokens is not None:
            by_trace[record.prompt, record.endpoint].setdefault(trace.prompt_tokens, where(record))
    return [
        f"prompt {prompt!r} on {endpoint} has {' and '.join(f'{count} tokens ({who})' for count, who in counts.items())} by {witness}"
        for witness, seen in (("usage", by_usage), ("trace", by_trace))
        for (prompt, endpoint), counts in seen.items()
        if len(counts) > 1
    ]


def _streamed_against_whole(evidence: Evidence) -> list[str]:
    """References whose streamed text is not the whole one. Blanks at both ends may differ: some servers trim a whole answer."""
    known = goldens(evidence).by_key
    found = []
    for (prompt, endpoint, stream), record in known.items():
        whole = known.get((prompt, endpoint, False))
        if stream and whole and whole.max_tokens == record.max_tokens and whole.text.strip() != record.text.strip():
            found.append(f"{where(record)}: {record.text[-60:]!r} when streamed, {whole.text[-60:]!r} when not, at the end")
    return found


PROTOCOL = Check(id="stream.protocol", question="Is each stream well formed?", judge=_protocol)
CONTENT = Check(id="stream.content", question="Are tokens, usage and text consistent?", judge=_content)
