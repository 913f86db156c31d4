// Review: the keys of a meeting follow the links of its bar; a note whose text is not saved is marked.
const TYPED_IN = "input, textarea, select, dialog, [contenteditable=true], [role=combobox], [role=listbox], [role=dialog], [role=slider]";
const PRESSED = "button, summary, [role=button]"; // activated by Space
const LINKS = { ArrowRight: "next", ArrowLeft: "previous", Escape: "leave" };
const SCREENS = { PageDown: 1, " ": 1, PageUp: -1 };
const SCREEN = 0.85; // of the window height: a few lines stay visible
const UNSAVED = "data-unsaved";
const NOTE = "[class*=st-key-note_]"; // the fields of a note, as in review_notes.py

// Scrolls a long section. Returns false at its end, where a presenter's button leads to the next one.
function scrolled(direction) {
  const main = document.querySelector("[data-testid=stMain]");
  const before = main.scrollTop;
  main.scrollBy({ top: direction * SCREEN * main.clientHeight, behavior: "instant" });
  return main.scrollTop !== before;
}

function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.composedPath().some((node) => node.matches?.(TYPED_IN)) || document.querySelector("[role=dialog]")) return;
  if (event.key === " " && event.target.closest?.(PRESSED)) return;
  const direction = event.key === " " && event.shiftKey ? -1 : SCREENS[event.key];
  if (!direction && !(event.key in LINKS)) return;
  event.preventDefault();
  if (direction && scrolled(direction)) return;
  const name = direction ? (direction > 0 ? "next" : "previous") : LINKS[event.key];
  document.querySelector(`.meeting .${name}`)?.click();
}

// Escape leaves the field of a note, which saves it; the meeting continues. Ctrl+Enter saves, Enter too in the owner field.
function pressedIn(event) {
  const field = event.target.closest?.(`${NOTE} :is(input, textarea)`);
  if (!field || event.isComposing) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey || field.matches("input"))) unsaved(event, false);
  if (event.key !== "Escape") return;
  event.preventDefault();
  event.stopPropagation();
  field.blur();
}

// Text is unsaved until its field is left; look_review.css shows this.
function unsaved(event, isUnsaved) {
  event.target.closest?.(NOTE)?.toggleAttribute(UNSAVED, isUnsaved);
}

// Leaving the page with unsaved text asks for confirmation; blur saves the note meanwhile.
function leaving(event) {
  const field = document.activeElement;
  if (!field?.closest(NOTE)?.hasAttribute(UNSAVED)) return;
  field.blur();
  event.preventDefault();
}

export default function ({ data, parentElement }) {
  parentElement.fleetEnd?.();
  const ended = new AbortController();
  const on = (target, name, act, capture = false) => target.addEventListener(name, act, { signal: ended.signal, capture });
  on(document, "keydown", pressedIn, true);
  on(document, "input", (event) => unsaved(event, true));
  on(document, "focusout", (event) => unsaved(event, false));
  on(window, "beforeunload", leaving);
  if (data.meeting) on(document, "keydown", pressed);
  parentElement.fleetEnd = () => ended.abort();
  return parentElement.fleetEnd;
}
