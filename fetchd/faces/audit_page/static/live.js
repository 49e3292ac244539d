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
  let source = null;
  let lost = false;

  // What a person has marked would be gone, so nothing is put in its place meanwhile.
  const isMarked = () => {
    const marked = document.getSelection();
    return !!marked && !marked.isCollapsed && live.contains(marked.anchorNode);
  };

  const look = () => {
    timer = 0;
    if (paused || asking || document.hidden || wanted === live.dataset.revision || isMarked()) return;
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
      const known = found && found.dataset.live;
      if (request.status === 200 && !known) window.location.reload(); // the form to sign in, most likely
      else if (request.status === 200 && !isMarked()) put(document.importNode(found, true));
      if (!timer) look();
    };
    request.onerror = () => { asking = false; };
    request.send();
  };

  const put = (fresh) => {
    const focused = document.activeElement && live.contains(document.activeElement) ? document.activeElement.id : "";
    const opened = [...live.querySelectorAll("details[open]")].map((one) => one.id);
    const more = Number(fresh.dataset.total) - Number(live.dataset.total);
    const read = [...live.querySelectorAll(".rows a[id]")].find((one) => one.getBoundingClientRect().top >= 0);
    const height = read && window.scrollY > 0 ? read.getBoundingClientRect().top : 0;
    live.replaceWith(fresh);
    live = fresh;
    const same = height && document.getElementById(read.id); // the row at the top of the window stays where it is
    if (same) window.scrollBy(0, same.getBoundingClientRect().top - height);
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

  // A browser keeps six connections to a server: pages that nobody sees must not hold them.
  const follow = () => {
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else if (!source) {
      source = new EventSource(live.dataset.live);
      source.addEventListener("error", () => { lost = true; news.textContent = "Not connected: newer rows are not shown."; });
      source.addEventListener("open", () => { if (lost) news.textContent = ""; lost = false; });
      source.addEventListener("change", (event) => { wanted = event.data; look(); });
      source.addEventListener("signed-out", () => {
        source.close();
        news.textContent = "Signed out. Reload to sign in.";
      });
    }
  };
  document.addEventListener("visibilitychange", () => { follow(); look(); });
  document.addEventListener("selectionchange", look);
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    look();
  });
  follow();
  controls.hidden = false;
})();
