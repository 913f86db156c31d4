"""Findings: causes, replicas, impact and fixes, the worst first."""

from dashboard.views.findings import findings_report
from dashboard.web import empty, findings_page, share, state

fleet = state.fleet()
if not fleet.pools and not fleet.inspection.findings:
    empty.nothing_answered()
    state.end_page()

known = findings_page.known_findings(fleet)
findings_page.draw_head(fleet)
chosen = findings_page.choose(fleet, known)
findings_page.draw_findings(fleet, known, chosen)
findings_page.draw_rules(fleet, known, chosen)
name = state.snapshot_name()
share.offer(lambda: findings_report(fleet, chosen, name=name))
