"""Whether faults made the server's log scream: crashes, errors beyond one or two a fault, or a flood of lines.

A log has no common clock or level, so it is held against what the run did: how many requests were spoilt, how many were
sent, polled and answered, and how many tokens were made.
"""

import re

from analysis.checks.requests import shown
from analysis.evidence import Evidence, LogSummary
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.vocabulary import Role

SPOILT = frozenset({Role.FAULTY, Role.BAD, Role.HOLDER})
LOUD = re.compile(r"\b(WARN|WARNING|ERROR|CRITICAL|FATAL)\b", re.IGNORECASE)


def _clean(evidence: Evidence) -> Finding:
    log = evidence.log
    if log is None:
        return unknown("the server's log was not kept") if evidence.plan.target.launched else not_applicable("no server log was given")
    if not log.line_count:
        return unknown("the server logged nothing at all during the run")
    spoilt = sum(record.role in SPOILT for record in evidence.records)
    wrong = [f"crash: {line}" for line in log.crashes]
    allowed_errors = evidence.limit("log_errors") + evidence.limit("log_errors_per_fault") * spoilt
    if log.error_count > allowed_errors:
        wrong.append(f"{log.error_count} error lines for {spoilt} spoilt requests (limit {allowed_errors:.0f})")
    wrong += _flood(evidence, log, spoilt)
    if wrong:
        return failed("the server's log shows that faults hurt it", *shown(wrong))
    return passed(f"{log.line_count} lines, {log.error_count} at error level, no crash, for {len(evidence.records)} requests")


def _flood(evidence: Evidence, log: LogSummary, spoilt: int) -> list[str]:
    """Shapes of lines, or all lines together, beyond what a talkative server says on each poll, request and token."""
    usual = len(evidence.records) + len(evidence.health) + len(evidence.metrics)
    loud = evidence.limit("log_shape") + evidence.limit("log_shape_per_fault") * spoilt
    quiet = evidence.limit("log_shape") + evidence.limit("log_lines_per_request") * usual + _tokens(evidence)
    wrong = []
    for shape, count in log.repeated:
        limit = loud if LOUD.search(shape) else quiet
        if count > limit:
            wrong.append(f"{count} lines like {shape!r} (limit {limit:.0f})")
    total = evidence.limit("log_shape") + 2 * quiet
    if log.line_count > total:
        wrong.append(f"{log.line_count} lines in all for {usual} requests and polls (limit {total:.0f})")
    if log.size_bytes > evidence.limit("log_bytes"):
        wrong.append(f"{log.size_bytes} bytes (limit {evidence.limit('log_bytes'):.0f})")
    return wrong


def _tokens(evidence: Evidence) -> float:
    return float(sum(max(record.token_events, record.completion_tokens or 0) for record in evidence.records))


CLEAN = Check(id="log.clean", question="Did faults make the log scream?", judge=_clean)
