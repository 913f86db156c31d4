// Opens a URL within this session, once: the URL changes as with Back, and Streamlit follows.
const RUNNING = "[data-testid=stApp]:not([data-test-script-state=notRunning])";
const MOMENT = 50; // ms

function open(address) {
  window.history.pushState({}, "", address);
  window.dispatchEvent(new PopStateEvent("popstate"));
  document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0);
}

// Completes the URL of the page that is shown, without a new entry in the history, as soon as the page is drawn: Streamlit
// would lose the values of widgets that are being drawn.
function complete(address) {
  const { pathname, search } = window.location;
  const wait = () => {
    if (window.location.pathname !== pathname || window.location.search !== search) return; // the reader was faster
    if (document.querySelector(RUNNING)) return void setTimeout(wait, MOMENT);
    window.history.replaceState({}, "", address);
    window.dispatchEvent(new PopStateEvent("popstate"));
  };
  if (new URL(address).pathname === pathname) wait();
}

export default function ({ data }) {
  const address = new URL(data.address, window.location.href);
  if (address.origin !== window.location.origin || address.href === window.location.href) return;
  (data.replace ? complete : open)(address.href);
}
