// The agenda of the review and the keys of a meeting. Sections are found by the class of their container.
const TYPED_IN = "input, textarea, select, [contenteditable=true], [role=combobox], [role=listbox], [role=dialog], [role=slider]";
const STEPS = { j: 1, n: 1, ArrowRight: 1, k: -1, p: -1, ArrowLeft: -1 };
const PRESSED = "button, summary, [role=button]"; // activated by Space
const MEETING = "meeting"; // as in links.py
const BEGIN = ".st-key-begin_meeting"; // the start button, as in meeting.py
const UNSAVED = "data-unsaved";
const NOTE = "[class*=st-key-note_]"; // the fields of a note, as in review_notes.py
const SCREEN = 0.85; // of the window height per Page Down: a few lines stay visible

const NEAR = 80; // pixels below the agenda: a heading above this line is current
const STILL = 4; // pixels of tolerance: less is not scrolling

const main = () => document.querySelector("[data-testid=stMain]");
const section = (key) => document.querySelector(`.st-key-${key}`);
const title = (key) => section(key)?.querySelector("h1, h2");

// A popstate event makes Streamlit read the changed URL.
function leave() {
  const address = new URL(window.location.href);
  if (!address.searchParams.has(MEETING)) return;
  address.searchParams.delete(MEETING);
  window.history.pushState({}, "", address.href);
  window.dispatchEvent(new PopStateEvent("popstate"));
}

class Agenda {
  constructor(root, keys) {
    this.root = root;
    this.all = keys;
  }

  // The sections drawn so far: the agenda is mounted first.
  get keys() {
    return this.all.filter(section);
  }

  // Where the current section begins: below the sticky header and agenda.
  top() {
    const header = document.querySelector("[data-testid=stHeader]")?.getBoundingClientRect().bottom ?? 0;
    return header + this.root.getBoundingClientRect().height + 1;
  }

  // The current section: the target of the last key or click until the reader scrolls, else the last one whose heading is
  // above a line near the top.
  place() {
    if (this.isAtLed()) return this.keys.indexOf(this.root.fleetLed.key);
    const begun = this.keys.findLastIndex((key) => (title(key) ?? section(key)).getBoundingClientRect().top < this.top() + NEAR);
    return Math.max(begun, 0); // at the top of the page none has begun
  }

  // Growing rows above move either the page or the section; scrolling moves both.
  isAtLed() {
    const led = this.root.fleetLed;
    if (!led || !this.keys.includes(led.key)) return false;
    if (Math.abs(main().scrollTop - led.scrolled) < STILL) return true;
    return Math.abs(section(led.key).getBoundingClientRect().top - led.top) < STILL;
  }

  // The list is one line that scrolls sideways on narrow screens.
  current(button) {
    if (button.hasAttribute("aria-current")) return;
    button.setAttribute("aria-current", "step");
    const list = button.closest("ol");
    list.scrollLeft += button.getBoundingClientRect().left - list.getBoundingClientRect().left - 40;
  }

  mark() {
    const key = this.keys[this.place()] ?? this.all[0];
    for (const button of this.root.querySelectorAll("button[data-key]")) {
      if (button.dataset.key === key) this.current(button);
      else button.removeAttribute("aria-current");
    }
  }

  go(place) {
    const key = this.keys[place];
    if (!key) return;
    const heading = title(key);
    main().scrollBy({ top: section(key).getBoundingClientRect().top - this.top() - 12, behavior: "instant" });
    this.root.fleetLed = { key, scrolled: main().scrollTop, top: section(key).getBoundingClientRect().top };
    if (heading) {
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
    this.root.querySelector("[aria-live]").textContent = this.root.querySelector(`[data-key="${key}"]`).textContent;
    this.mark();
  }

  // Type size changes when a meeting starts or ends: keep the current section in place until the next input.
  hold(key) {
    const watch = new ResizeObserver(() => this.go(this.keys.indexOf(key)));
    const end = () => watch.disconnect();
    watch.observe(main().firstElementChild);
    for (const name of ["wheel", "keydown", "pointerdown"]) document.addEventListener(name, end, { once: true, capture: true });
  }

  // The section to keep in place; none at the top of the page.
  held() {
    return main().scrollTop < STILL ? undefined : this.keys[this.place()];
  }

  // Page Down, Space and presenter buttons scroll a long section by screens, then move to the next one.
  page(direction) {
    const [place, last] = [this.place(), this.keys.length - 1];
    const box = section(this.keys[place]).getBoundingClientRect();
    const [from, to] = [this.top(), main().getBoundingClientRect().bottom];
    const end = place === last ? to + main().scrollHeight - main().clientHeight - main().scrollTop : box.bottom;
    const rest = direction > 0 ? end - to : from - box.top - 13;
    if (rest > 1) main().scrollBy({ top: direction * Math.min(rest + 12, SCREEN * (to - from)), behavior: "instant" });
    else if (direction < 0 || place < last) this.go(Math.max(place + direction, 0));
  }

  // The scroll direction of a key: 1, -1, or 0 for other keys.
  screen(event) {
    if (event.key === " ") return event.target.closest?.(PRESSED) ? 0 : event.shiftKey ? -1 : 1;
    return { PageDown: 1, PageUp: -1 }[event.key] ?? 0;
  }

  leave() {
    this.root.fleetHeld = this.held();
    leave();
  }

  // Show the keys, or hide them.
  explain() {
    const hidden = this.root.querySelector(".keys").toggleAttribute("hidden");
    this.root.querySelector("[data-keys]").setAttribute("aria-expanded", String(!hidden));
  }

  pressed(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.composedPath().some((node) => node.matches?.(TYPED_IN))) return;
    if (document.querySelector("[role=dialog]")) return;
    const direction = this.screen(event);
    if (event.key === "Escape") this.leave();
    else if (!this.keys.length) return;
    else if (event.key in STEPS) this.go(this.place() + STEPS[event.key]);
    else if (direction) this.page(direction);
    else if (event.key >= "1" && event.key <= "9") this.go(Number(event.key) - 1);
    else if (event.key === "?") this.explain();
    else return;
    event.preventDefault();
  }
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
  const root = parentElement.querySelector(".agenda-surface");
  if (root.fleetHtml !== data.html) [root.innerHTML, root.fleetHtml] = [data.html, data.html];
  root.fleetEnd?.();
  const ended = new AbortController();
  const on = (target, name, act, capture = false) => target.addEventListener(name, act, { signal: ended.signal, capture });
  const agenda = new Agenda(root, data.keys);
  on(root, "click", (event) => {
    const key = event.target.closest("[data-key]")?.dataset.key;
    if (key) agenda.go(agenda.keys.indexOf(key));
    else if (event.target.closest("[data-keys]")) agenda.explain();
    else if (event.target.closest("[data-leave]")) agenda.leave();
  });
  on(document, "keydown", pressedIn, true);
  on(document, "input", (event) => unsaved(event, true));
  on(document, "focusout", (event) => unsaved(event, false));
  on(window, "beforeunload", leaving);
  if (data.meeting) on(document, "keydown", (event) => agenda.pressed(event));
  on(main(), "scroll", () => agenda.mark());
  on(document, "click", (event) => event.target.closest?.(BEGIN) && (root.fleetHeld = agenda.held()), true);
  if (root.fleetMeeting !== data.meeting && root.fleetHeld) agenda.hold(root.fleetHeld);
  root.fleetMeeting = data.meeting;
  agenda.mark();
  root.fleetEnd = () => ended.abort();
  return root.fleetEnd;
}
