"""What webhooks get: alerts that are new, worse or ended since the last poll, in the outbox until delivered."""

from collections.abc import Sequence
from datetime import datetime

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.lifecycle import extent_in
from dashboard.config import WebhookOptions
from dashboard.errors import HistoryError
from dashboard.fleet.formatting import end_cut
from dashboard.notify.alerts import Alert, AlertEvent, AlertKey, Alerts, Knowledge, compare_alerts
from dashboard.rules.catalogue import RULE_SET
from dashboard.store.history.outbox import Notification, Outbox, RowKey

DAMAGED = "Alerts in the history are damaged; delete the rows of its tables alert and notification."


def announce(
    states: Alerts, now: Alerts, fleet: Fleet, at: datetime, *, is_new_rule_set: bool = False
) -> tuple[dict[AlertKey, Alert], tuple[Alert, ...]]:
    """Return the alerts that fire after the poll at `at`, whose alerts are `now`, and those that a message is to have.

    An alert is worse on more replicas than ever since it began, and a larger share of its pools: not where replicas
    were replaced or added. While a pool is in a rollout, what follows the rollout and what spread waits, and the end of
    what follows it now. What a new rule set finds first is not new.
    """
    step = compare_alerts(states, now, fleet, at)
    rolling = {end_cut(pool) for pool in fleet.inspection.rollouts}
    following = {digest for each in now.values() if each.is_rollout for digest in each.fingerprints}
    after: dict[AlertKey, Alert] = {}
    ended = []
    for alert in step.ended:
        before = states[alert.key]
        is_held = alert.is_rollout or not following.isdisjoint(alert.fingerprints)
        if before.knowledge is Knowledge.NOTIFIED and is_held and not rolling.isdisjoint(map(end_cut, alert.pools)):
            after[alert.key] = before
        elif before.knowledge is Knowledge.NOTIFIED:
            ended.append(alert)
    former = {(each.rule, each.pool): each.severity for each in step.ended if each.key not in after}
    new = {each.key for each in step.new}
    begun = []
    for key, alert in step.firing.items():
        earlier, extent = states.get(key), extent_in(fleet, alert.pools, len(alert.replicas))
        is_settled = rolling.isdisjoint(map(end_cut, alert.pools))
        is_more = alert.announced is not None and extent.exceeds(alert.announced)
        is_new, is_worse = key in new and not is_new_rule_set, is_more and is_settled and not is_new_rule_set
        knowledge, event = _heard(alert, earlier, is_new=is_new, is_worse=is_worse)
        is_counted = alert.announced is None or (is_more and (is_settled or event is not None))
        after[key] = alert.with_changes(knowledge=knowledge, announced=extent if is_counted else alert.announced)
        if event is not None:
            begun.append(_compared(after[key].with_changes(event=event), former.get((alert.rule, alert.pool))))
    return after, (*begun, *ended)


def _heard(alert: Alert, earlier: Alert | None, *, is_new: bool, is_worse: bool) -> tuple[Knowledge, AlertEvent | None]:
    """Return what receivers know of an alert from now on, and why they get a message; None: they get none."""
    before = earlier.knowledge if earlier else Knowledge.WAITING if is_new else Knowledge.SILENT
    if before is Knowledge.WAITING and alert.is_rollout:
        return before, None
    if before is Knowledge.WAITING or is_new:
        return Knowledge.NOTIFIED, AlertEvent.NEW
    return (Knowledge.NOTIFIED, AlertEvent.WORSE) if is_worse else (before, None)


def _compared(alert: Alert, was: object) -> Alert:
    """Return a new alert with its former severity, if it had one."""
    if not isinstance(was, type(alert.severity)) or was is alert.severity:
        return alert
    return alert.with_changes(was=was, event=AlertEvent.WORSE if alert.severity.rank < was.rank else AlertEvent.MILDER)


class Announcer:
    """Announces polls to webhooks. Nothing that a poll changed is forgotten: it is kept before it counts as known."""

    def __init__(self, outbox: Outbox, webhooks: Sequence[WebhookOptions]) -> None:
        self._outbox = outbox
        self._webhooks = {each.label: each for each in webhooks}
        self._states: Alerts | None = None
        self._receivers: frozenset[str] = frozenset()
        self._rule_set: int | None = None

    def polled(self, now: Alerts, fleet: Fleet, at: datetime) -> bool:
        """Keep what the poll at `at` changed; return whether something was kept.

        Raise HistoryError where it was not: the next poll has it, too.
        """
        if self._states is None:
            self._remember()
        states = self._states or {}
        is_upgrade = self._rule_set is not None and self._rule_set < RULE_SET
        firing, alerts = announce(states, now, fleet, at, is_new_rule_set=is_upgrade)
        changed = {key: firing.get(key) for key in {*states, *firing} if states.get(key) != firing.get(key)}
        unknown = self._webhooks.keys() - self._receivers  # they get everything that fires
        known = [each for each in firing.values() if each.knowledge is Knowledge.NOTIFIED]
        notifications = [
            Notification(receiver, alert.key, alert.model_dump_json(), is_end=alert.until is not None)
            for receiver, options in self._webhooks.items()
            for alert in (known if receiver in unknown else alerts)
            if alert.severity.rank <= options.min_severity.rank
        ]
        is_read = any(each.fresh for each in fleet.replicas)  # else a new rule set has found nothing yet
        rule_set = RULE_SET if is_read or self._rule_set is None else self._rule_set
        is_kept = bool(changed or notifications or unknown) or rule_set != self._rule_set
        if is_kept:
            rows: dict[RowKey, str | None] = {
                key: each.model_dump_json() if each else None for key, each in changed.items()
            }
            self._outbox.save(rows, notifications, unknown, rule_set, at)
        self._states, self._rule_set, self._receivers = firing, rule_set, frozenset(self._webhooks)
        return is_kept

    def _remember(self) -> None:
        """Read what an earlier process announced."""
        alerts, self._receivers, self._rule_set = self._outbox.load(self._webhooks)
        try:
            self._states = {AlertKey(*key): Alert.model_validate_json(each) for key, each in alerts.items()}
        except ValueError:
            raise HistoryError(DAMAGED) from None
