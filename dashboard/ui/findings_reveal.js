// Scrolls the list beside an open finding to its entry, once per finding: the page itself does not move.
// The list was drawn anew: if that took the focus away, the entry gets it back, for those who go on by keyboard.
function reveal() {
  const entry = document.querySelector(".st-key-findings_beside .findings [aria-current]");
  if (document.activeElement === document.body) entry?.querySelector("a").focus({ preventScroll: true });
  const list = entry?.closest("[data-testid=stColumn]");
  if (!list) return;
  const [inner, outer] = [entry.getBoundingClientRect(), list.getBoundingClientRect()];
  const bottom = Math.min(outer.bottom, window.innerHeight);
  if (inner.top >= outer.top && inner.bottom <= bottom) return;
  list.scrollTop += inner.top - outer.top - (bottom - outer.top - inner.height) / 2;
}

export default function ({ data, parentElement }) {
  if (parentElement.fleetRevealed === data.finding) return;
  parentElement.fleetRevealed = data.finding;
  requestAnimationFrame(() => requestAnimationFrame(reveal));
}
