// Shows newer rows as they come: told by /live that there are some, it asks for the page again and puts its part in
// place. Without script, without EventSource, or paused, the page stays as it is.
"use strict";

(() => {
  const LEAST_MS = 2000; // between two looks
  const SAY_MS = 15000; // between two sentences to a screen reader
  let live = document.getElementById("live");
  const controls = document.getElementById("live-controls");
  const pause = document.getElementById("pause");
  const news = document.getElementById("news");
  if (!live || !live.dataset.live || !("EventSource" in window)) return;

  let paused = false;
  let wanted = live.dataset.revision;
  let asking = false;
  let timer = 0;
  let last = 0;
  let said = 0;
  let unsaid = 0;

  const look = () => {
    timer = 0;
    if (paused || asking || document.hidden || wanted === live.dataset.revision) return;
    const wait = last + LEAST_MS - Date.now();
    if (wait > 0) {
      timer = window.setTimeout(look, wait);
      return;
    }
    asking = true;
    last = Date.now();
    const request = new XMLHttpRequest();
    request.open("GET", window.location.href);
    request.responseType = "document"; // parsed with scripts off, and no text is turned into markup here
    request.onload = () => {
      asking = false;
      const found = request.response && request.response.getElementById("live");
      if (request.status === 200 && found && found.dataset.live) put(document.importNode(found, true));
      else if (request.status === 200) window.location.reload(); // the form to sign in, most likely
      if (!timer) look();
    };
    request.onerror = () => { asking = false; };
    request.send();
  };

  const put = (fresh) => {
    const focused = document.activeElement && live.contains(document.activeElement) ? document.activeElement.id : "";
    const opened = [...live.querySelectorAll("details[open]")].map((one) => one.id);
    const more = Number(fresh.dataset.total) - Number(live.dataset.total);
    live.replaceWith(fresh);
    live = fresh;
    for (const id of opened) {
      const one = id && document.getElementById(id);
      if (one) one.open = true;
    }
    const back = focused && document.getElementById(focused);
    if (back) back.focus({ preventScroll: true });
    if (more > 0) unsaid += more;
    if (unsaid > 0 && Date.now() - said > SAY_MS) {
      news.textContent = unsaid === 1 ? "1 new row" : `${unsaid} new rows`;
      said = Date.now();
      unsaid = 0;
    }
  };

  const source = new EventSource(live.dataset.live);
  source.addEventListener("change", (event) => { wanted = event.data; look(); });
  source.addEventListener("signed-out", () => { source.close(); news.textContent = "Signed out. Reload to sign in."; });
  document.addEventListener("visibilitychange", look);
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    look();
  });
  controls.hidden = false;
})();
