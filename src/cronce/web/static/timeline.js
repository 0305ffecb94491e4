// Moving in time: by keys, by dragging, by the wheel. Each is another span in the address, which any link has as well;
// page.js keeps what is shown up to date, and its `swap` puts in what was fetched.
"use strict";

{
  const LEAST = 10_000, MOST = 92 * 86_400_000; // milliseconds; what the server shows
  const PATIENCE = 120; // from the last move until it is fetched
  const box = () => document.querySelector("[data-timeline]");
  const picture = () => document.querySelector(".picture.wide");
  let ahead = null; // the span that was asked for and is not shown yet
  let timer = 0, latest = null;

  const span = () => ahead || [Date.parse(box().dataset.start), Date.parse(box().dataset.end)];
  const spelled = (ms) => new Date(Math.round(ms / 1000) * 1000).toISOString().replace(".000", "");

  function show(start, end) {
    const length = Math.min(Math.max(end - start, LEAST), MOST), middle = (start + end) / 2;
    ahead = [middle - length / 2, middle + length / 2];
    const query = new URLSearchParams(location.search);
    query.delete("span");
    query.set("from", spelled(ahead[0]));
    query.set("to", spelled(ahead[1]));
    history.replaceState(null, "", `${location.pathname}?${query}`);
    clearTimeout(timer);
    timer = setTimeout(fetchIt, PATIENCE);
  }

  async function fetchIt() {
    latest?.abort();
    const mine = latest = new AbortController();
    try {
      const answer = await fetch(location.href, { headers: { "X-Fragment": "1", Accept: "text/html" }, signal: mine.signal });
      if (answer.ok) swap(await answer.text());
    } catch { /* another move came, or the page says that the store is away */ }
    if (mine === latest) ahead = null;
  }

  const pan = (share) => { const [start, end] = span(); show(start + share * (end - start), end + share * (end - start)); };

  function zoom(factor, at = .5) {
    const [start, end] = span(), fixed = start + at * (end - start);
    show(fixed - at * (end - start) * factor, fixed + (1 - at) * (end - start) * factor);
  }

  // The names of lanes stay in sight.
  function follow() {
    for (const name of picture()?.querySelectorAll(".name") ?? []) name.setAttribute("x", 8 + picture().scrollLeft);
  }
  follow();
  document.addEventListener("scroll", (event) => { if (event.target === picture()) follow(); }, true);
  document.addEventListener("cronce:swapped", follow);

  // --- keys ---

  const keys = { ArrowLeft: () => pan(-.5), ArrowRight: () => pan(.5), "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), "−": () => zoom(2) };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const scrolls = event.target === picture() && picture().scrollWidth > picture().clientWidth;
    if (!keys[event.key] || (scrolls && event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    keys[event.key]();
  });

  // --- wheel and drag ---

  const share = (event) => { const where = picture().firstElementChild.getBoundingClientRect(); return (event.clientX - where.left) / where.width; };

  document.addEventListener("wheel", (event) => {
    if (!event.target.closest?.(".picture.wide") || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : .8, share(event));
  }, { passive: false });

  let from = null, moved = 0;

  document.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch" && event.button === 0 && event.target.closest?.(".picture.wide")) [from, moved] = [event.clientX, 0];
  });
  document.addEventListener("pointermove", (event) => {
    if (from === null || !picture()) return;
    moved = event.clientX - from;
    if (Math.abs(moved) < 4) return;
    picture().classList.add("drags");
    picture().firstElementChild.style.transform = `translateX(${moved}px)`;
  });
  document.addEventListener("pointerup", () => {
    if (from === null || !picture()) return;
    from = null;
    picture().classList.remove("drags");
    if (Math.abs(moved) >= 4) pan(-moved / picture().firstElementChild.getBoundingClientRect().width);
  });
  document.addEventListener("dragstart", (event) => { if (event.target.closest?.(".picture.wide")) event.preventDefault(); });
  document.addEventListener("click", (event) => {
    if (Math.abs(moved) >= 4 && event.target.closest?.(".picture.wide")) event.preventDefault(); // the end of a drag
    moved = 0;
  }, true);
}
