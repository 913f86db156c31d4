// Copies a text and says so on the button; where the browser does not let it, `place` stands selected instead.
// Not by navigator.clipboard: a dashboard on plain http has none.
function copyText(button, text, place) {
  const label = (button.dataset.label ??= button.textContent); // a second press finds "Copied" there
  const put = (event) => {
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
  };
  window.getSelection().selectAllChildren(place); // some browsers copy only where something is selected
  document.addEventListener("copy", put, { capture: true, once: true });
  const copied = document.execCommand("copy");
  document.removeEventListener("copy", put, { capture: true });
  if (copied) window.getSelection().removeAllRanges();
  button.textContent = copied ? "Copied" : "Selected";
  setTimeout(() => { button.textContent = label; }, 1500);
}
