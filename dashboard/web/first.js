// Runs before Streamlit. It would look for its server below the page of a deep link first, with two 404s in the console.
(() => {
  const parts = location.pathname.replace(/\/+$/, "").split("/");
  const isPage = PAGES.includes(parts.at(-1));
  const home = location.origin + (isPage ? parts.slice(0, -1) : parts).join("/") + "/";
  if (isPage) window.__streamlit = { BACKEND_BASE_URL: home };

  // Marks the body once the page is drawn and no longer changes, for screenshots and tests of pages.
  const BUSY = "[data-testid=stSkeleton],[data-testid=stAppSkeleton],[data-testid=stSpinner],[data-stale=true]";
  const isDrawn = () => {
    const app = document.querySelector("[data-testid=stApp]");
    const charts = [...document.querySelectorAll("[data-testid=stPlotlyChart]")];
    return app?.dataset.testConnectionState === "CONNECTED" && app.dataset.testScriptState === "notRunning"
      && !document.querySelector(BUSY) && document.fonts.status === "loaded"
      && charts.every((chart) => chart.querySelector(".main-svg"));
  };
  let shown = null, length = null; // URL, and size of the page at the last look
  // look.css hides the first page until its title is there: the rest comes below, and moves nothing.
  const reveal = () => {
    const main = document.querySelector("[data-testid=stMain]");
    if (main?.querySelector("h1, .empty") || (main?.querySelector(".stElementContainer") && isDrawn())) document.body.dataset.shown = "true";
    else requestAnimationFrame(reveal);
  };
  requestAnimationFrame(reveal);
  setInterval(() => {
    const body = document.body;
    if (location.href !== shown) {
      shown = location.href;
      length = null;
      delete body.dataset.ready;
    }
    if (body.dataset.ready) return;
    const now = isDrawn() ? body.innerHTML.length : null;
    if (now !== null && now === length) body.dataset.ready = "true";
    length = now;
  }, 150);

  // Renews the cookie of the session. Where that ended, the page leaves for one that says so: to sign in by itself would
  // undo a sign-out in another tab. Where the role is gone, or a proxy asks for a sign-in, it is loaded again. While the
  // server is down, Streamlit waits for it.
  const SESSION_SECONDS = 30, ASK_SECONDS = 5;
  let isLeaving = false;
  const ask = async () => {
    const how = { cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(1000 * ASK_SECONDS) };
    const answer = await fetch(home + "auth/session", how).catch(() => null);
    if (isLeaving) return;
    const here = encodeURIComponent(location.pathname + location.search);
    isLeaving = [401, 403].includes(answer?.status) || answer?.type === "opaqueredirect";
    if (answer?.headers.get("X-Fleet-Access") === "signed-out") location.replace(`${home}auth/signed-out?next=${here}`);
    else if (isLeaving) location.reload();
    else delete document.body.dataset.asking;
  };
  setInterval(ask, 1000 * SESSION_SECONDS);
  addEventListener("pageshow", ask); // the button back shows a page without a request
  // The websocket ends with the session. Until the answer look.css hides Streamlit's dialog on a lost connection.
  window.WebSocket = class extends WebSocket {
    constructor(...parts) {
      super(...parts);
      this.addEventListener("close", () => {
        document.body.dataset.asking = "true";
        ask();
      });
    }
  };
})();
