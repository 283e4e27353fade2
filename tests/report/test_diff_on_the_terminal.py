"""Which root causes ``gate diff`` lists where there are more than the terminal shows."""

from __future__ import annotations

from gate.cli.diff import _CAUSES, _told
from gate.report.difference import CAUSE_STATUSES, CauseChange, CauseStatus


def change(status: CauseStatus, number: int) -> CauseChange:
    return CauseChange(id=f"{status}-{number}", title="t", status=status, before=None, after=None, basis="b")


def test_many_new_root_causes_do_not_hide_what_is_fixed() -> None:
    causes = [change("new", number) for number in range(60)] + [change("known", 0)] + [change("fixed", number) for number in range(60)]
    told = _told(causes)
    assert len(told) == _CAUSES
    assert [cause.status for cause in told].count("fixed") >= 9
    assert "known-0" in [cause.id for cause in told]
    assert [causes.index(cause) for cause in told] == sorted(causes.index(cause) for cause in told)
    assert told[0].id == "new-0"


def test_all_are_listed_where_they_fit() -> None:
    causes = [change(status, number) for status in CAUSE_STATUSES for number in range(3)]
    assert _told(causes) == causes
    assert _told([]) == []
