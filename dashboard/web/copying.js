// Copies a text and confirms it on the button; where the browser refuses, selects `place` instead.
// navigator.clipboard does not exist on plain HTTP.
function copyText(button, text, place) {
  const label = (button.dataset.label ??= button.textContent); // a second click finds "Copied" there
  const put = (event) => {
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
  };
  window.getSelection().selectAllChildren(place); // some browsers copy only with a selection
  document.addEventListener("copy", put, { capture: true, once: true });
  const copied = document.execCommand("copy");
  document.removeEventListener("copy", put, { capture: true });
  if (copied) window.getSelection().removeAllRanges();
  button.textContent = copied ? "Copied" : "Selected";
  setTimeout(() => { button.textContent = label; }, 1500);
}
