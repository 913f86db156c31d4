// A table of replicas whose rows are ticked. Its HTML arrives escaped. Ticks belong to replicas, so they stay when rows move.
function boxes(root) {
  return [...root.querySelectorAll("[data-tick]")];
}

// Replaces the table and keeps the focus.
function show(root, html) {
  if (root.fleetHtml === html) return;
  const focused = root.contains(document.activeElement) ? document.activeElement.dataset.tick : null;
  root.innerHTML = html;
  root.fleetHtml = html;
  boxes(root).find((box) => box.dataset.tick === focused)?.focus();
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".surface");
  if (root.fleetCleared !== data.cleared) root.fleetTicked = new Set(data.ticked); // else a quick reader is ahead of the server
  root.fleetCleared = data.cleared;
  show(root, data.html);
  boxes(root).forEach((box) => (box.checked = root.fleetTicked.has(box.dataset.tick)));
  root.onchange = () => {
    const ticked = boxes(root).filter((box) => box.checked).map((box) => box.dataset.tick);
    root.fleetTicked = new Set(ticked);
    setTriggerValue("ticked", ticked);
  };
}
