// A matrix of settings whose cells open by click, or by Tab, arrow keys and Enter. Its HTML arrives escaped.
const STEP = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const CELL = "tbody [tabindex]";

function grid(root) {
  return [...root.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("[tabindex]")]);
}

function focusOn(root, cell) {
  root.querySelectorAll('tbody [tabindex="0"]').forEach((other) => other.setAttribute("tabindex", "-1"));
  cell.setAttribute("tabindex", "0");
  cell.focus();
}

function move(root, cell, key) {
  const rows = grid(root);
  const row = rows.findIndex((cells) => cells.includes(cell));
  if (key === "Home") return focusOn(root, rows[row][0]);
  if (key === "End") return focusOn(root, rows[row].at(-1));
  const [down, right] = STEP[key];
  const next = rows[row + down]?.[rows[row].indexOf(cell) + right];
  if (next) focusOn(root, next);
}

// The target of a cell or of a column's header.
function opened(cell) {
  return { path: cell.closest("tr").dataset.path ?? null, column: cell.dataset.column ?? null };
}

// Replaces the table and keeps scroll position and focus.
function show(root, html) {
  if (root.fleetHtml === html) return;
  const place = root.querySelector(".scroll");
  const [top, left] = [place?.scrollTop ?? 0, place?.scrollLeft ?? 0];
  const focused = document.activeElement?.closest(CELL);
  const [path, index] = focused && root.contains(focused) ? [opened(focused).path, focused.cellIndex] : [null, 0];
  root.innerHTML = html;
  root.fleetHtml = html;
  root.querySelector(".scroll")?.scrollTo(left, top);
  const row = path && [...root.querySelectorAll("tbody tr")].find((each) => each.dataset.path === path);
  if (row?.cells[index]) focusOn(root, row.cells[index]);
}

// The visible text of a cell, without words for screen readers.
function shown(cell) {
  const parts = [...cell.childNodes].filter((node) => !node.classList?.contains("said"));
  return parts.map((node) => (node.tagName === "SMALL" ? ` ${node.textContent}` : node.textContent)).join("").replace(/\s+/g, " ").trim();
}

function copy(root, button) {
  const rows = [...root.querySelectorAll("tr")].map((row) => [...row.cells].filter((cell) => !cell.matches(".mark")));
  const text = rows.map((cells) => cells.map(shown).join("\t")).join("\n");
  copyText(button, text, root.querySelector("table")); // of copying.js
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".surface");
  const open = (cell) => setTriggerValue("cell", opened(cell));
  show(root, data.html);
  root.onclick = (event) => {
    const button = event.target.closest("[data-copy-table]");
    if (button) return copy(root, button);
    const cell = event.target.closest("[tabindex]");
    if (cell && !window.getSelection().toString()) open(cell);
  };
  root.onkeydown = (event) => {
    const cell = event.target.closest("[tabindex]");
    if (!cell) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(cell);
    } else if (cell.matches(CELL) && (event.key in STEP || event.key === "Home" || event.key === "End")) {
      event.preventDefault();
      move(root, cell, event.key);
    }
  };
}
