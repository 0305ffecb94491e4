// What a page can do besides being read: it stays up to date, answers to keys, and tells times as the viewer's clock
// has them. Without this script everything is still there.
"use strict";

const root = document.documentElement.dataset.root.replace(/\/$/, "");
const main = document.getElementById("main");
const all = (what, within = document) => [...within.querySelectorAll(what)];
const say = (text) => { document.querySelector("[data-said]").textContent = text; };

// --- times ------------------------------------------------------------------------------------------------------

let ahead = document.body.dataset.now ? Date.parse(document.body.dataset.now) - Date.now() : 0; // the store's clock
const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

function short(seconds) {
  if (seconds < 10) return `${Math.round(seconds)}s`;
  let left = Math.round(seconds);
  const parts = units.map(([unit, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count ? `${count}${unit}` : "";
  });
  const first = parts.findIndex(Boolean);
  return parts.slice(first, first + 2).filter(Boolean).join(" ");
}

function tick() {
  const now = Date.now() + ahead;
  for (const time of all("time[data-away]")) {
    const seconds = (Date.parse(time.dateTime) - now) / 1000;
    const text = Math.abs(seconds) < 1.5 ? "now" : seconds > 0 ? `in ${short(seconds)}` : `${short(-seconds)} ago`;
    const told = "past" in time.dataset && seconds > -2 ? "just now" : text;
    if (time.textContent !== told) time.textContent = told;
  }
}

function localize() {
  for (const time of all("time[datetime]:not([data-local])")) {
    time.dataset.local = "";
    time.title += `\n${new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" })}`;
  }
}

// --- light and dark ---------------------------------------------------------------------------------------------

const toggle = document.querySelector("[data-theme-toggle]");

function switchTheme() {
  const html = document.documentElement;
  const dark = html.dataset.theme ? html.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  html.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("cronce-theme", html.dataset.theme); } catch { /* not kept, then */ }
  say(`${html.dataset.theme} theme`);
}

toggle.hidden = false;
toggle.addEventListener("click", switchTheme);

// --- staying up to date -----------------------------------------------------------------------------------------

const live = document.querySelector(".live");
// Not more often, and not more seldom, in milliseconds: that something stopped is no news of the store's. Where
// schedulers are shown it is more often: one is late two seconds after its last beat, and is seen within three.
const often = () => (main.querySelector("[data-holder]") ? [500, 800] : [1000, 2500]);
let fetched = Date.now(), wanted = false, busy = false, timer = 0, next = 0;

function state(name, text) {
  live.hidden = false;
  if (live.dataset.state === name) return;
  live.dataset.state = name;
  live.firstElementChild.textContent = text;
}

// A form that is being filled in, or what is not there, does not change by itself.
const still = () => Boolean(main.querySelector("[data-still]"));

function refresh() {
  wanted = true;
  if (busy || timer || document.hidden || still()) return;
  timer = setTimeout(fetchNow, Math.max(0, fetched + often()[0] - Date.now()));
}

// Counted from when the last request was sent, not from its answer.
function refreshInTime() {
  clearTimeout(next);
  next = setTimeout(refresh, Math.max(0, fetched + often()[1] - Date.now()));
}

async function fetchNow() {
  [timer, wanted, busy, fetched] = [0, false, true, Date.now()];
  const asked = location.href;
  try {
    const answer = await fetch(asked, { headers: { "X-Fragment": "1", Accept: "text/html" }, redirect: "error" });
    if (answer.ok) {
      const text = await answer.text();
      ahead = Math.max(ahead, Date.parse(answer.headers.get("X-Now")) - Date.now() || -Infinity); // the way took a while
      if (main.querySelector("[data-trouble]")) location.reload(); // the store is back
      else if (document.activeElement.closest("form.filter")) refill(text);
      else if (!inUse() && asked === location.href) swap(text); // meanwhile one may have moved in time
      state("on", "live");
    } else if (answer.status >= 500) state("away", "reconnecting…");
  } catch { state("away", "reconnecting…"); }
  busy = false;
  if (wanted) refresh();
  refreshInTime();
}

// Somebody selects text, or fills in a form: then the page keeps still.
function inUse() {
  const selected = getSelection();
  const selects = selected && !selected.isCollapsed && main.contains(selected.anchorNode);
  const at = document.activeElement;
  return selects || (main.contains(at) && at.matches("select, input, textarea"));
}

// What a place in the page is known by, before and after: its id, its address or its words.
function known(node) {
  return node.id || node.getAttribute("href") || node.getAttribute("name") || node.dataset.id || node.textContent.trim();
}

// What can be scrolled, each with a name that holds when others come or go.
function boxes() {
  const counts = {};
  return all(".scroll, .picture, pre", main).map((one) => {
    const kind = one.matches(".picture") ? "picture" : one.tagName;
    return [one.id || kind + (counts[kind] = (counts[kind] ?? 0) + 1), one];
  });
}

// A picture that is wider than its box begins at its end: what is new is there.
function toEnd(picture) {
  picture.scrollLeft = picture.scrollWidth;
}

function swap(html) {
  const next = new DOMParser().parseFromString(`<main>${html}</main>`, "text/html").querySelector("main");
  const open = new Set(all("details[open]", main).map((one) => known(one.firstElementChild)));
  const shut = new Set(all("details:not([open])", main).map((one) => known(one.firstElementChild)));
  const typed = new Map(all("input[name], textarea[name]", main).map((one) => [formed(one), one]));
  const scrolled = new Map(boxes().map(([name, one]) => [name, [one.scrollLeft, one.scrollTop]]));
  const at = main.contains(document.activeElement) ? document.activeElement : null;
  const focused = at && [at.tagName, known(at)];
  const row = selectedRow() && known(selectedRow().querySelector("a") || selectedRow());
  for (const one of all("details", next)) {
    const name = known(one.firstElementChild);
    if (open.has(name)) one.open = true;
    else if (shut.has(name)) one.open = false;
  }
  for (const one of all("input[name], textarea[name]", next)) {
    const was = typed.get(formed(one));
    if (was && one.type !== "hidden") [one.value, one.checked] = [was.value, was.checked];
  }
  if (next.innerHTML === main.innerHTML) return;
  main.replaceChildren(...next.childNodes);
  for (const [name, one] of boxes()) {
    if (scrolled.has(name)) [one.scrollLeft, one.scrollTop] = scrolled.get(name);
    else if (one.matches(".picture.wide")) toEnd(one);
  }
  if (focused) all(focused[0], main).find((one) => known(one) === focused[1])?.focus({ preventScroll: true });
  if (row) select(rows().find((one) => known(one.querySelector("a") || one) === row));
  settle();
  document.dispatchEvent(new CustomEvent("cronce:swapped"));
}

const formed = (one) => `${one.form?.getAttribute("action")} ${one.name} ${one.type === "radio" ? one.value : ""}`;

// After the page is made, and after each time that it is made anew.
function settle() {
  localize();
  tick();
  if (navigator.clipboard) all("[data-copy]", main).forEach((one) => { one.hidden = false; });
  const alerts = main.querySelector("[data-open-alerts]"), count = document.querySelector("[data-alerts]");
  if (alerts) {
    count.textContent = alerts.dataset.openAlerts;
    count.hidden = alerts.dataset.openAlerts === "0";
  }
}

function listen() {
  const stream = new EventSource(`${root}/live`);
  stream.addEventListener("open", () => state("on", "live"));
  stream.addEventListener("changed", refresh);
  stream.addEventListener("away", () => { state("away", "the store does not answer…"); });
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 3000); // refused: the browser gives up, we do not
    setTimeout(() => { if (stream.readyState !== EventSource.OPEN) state("away", "reconnecting…"); }, 2500);
  });
  addEventListener("pagehide", () => stream.close(), { once: true });
}

addEventListener("pageshow", (event) => { if (event.persisted) listen(); }); // back from another page

document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
setInterval(tick, 500);
refreshInTime();

// --- keys -------------------------------------------------------------------------------------------------------

const rows = () => all("tbody tr", main).filter((row) => row.offsetParent && row.querySelector("a"));
const selectedRow = () => main.querySelector('tr[aria-selected="true"]');

function select(row) {
  selectedRow()?.removeAttribute("aria-selected");
  row?.setAttribute("aria-selected", "true");
}

function move(step) {
  const found = rows(), at = found.indexOf(selectedRow());
  const row = found[Math.min(Math.max(at + step, 0), found.length - 1)];
  if (!row) return;
  select(row);
  row.querySelector("a").focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

const find = document.querySelector("[data-find]");
const keys = {
  "/": () => find.focus(),
  "?": () => { location.href = `${root}/help`; },
  j: () => move(1),
  k: () => move(-1),
  t: switchTheme,
  n: () => main.querySelector("[data-next]")?.click(),
};
let going = 0;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing) return;
  if (Date.now() - going < 1500) {
    going = 0;
    const way = document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`);
    if (way) { event.preventDefault(); way.click(); }
  } else if (event.key === "g") {
    going = Date.now();
  } else if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});

// --- forms ------------------------------------------------------------------------------------------------------

// A filter answers while one types, and when one chooses.
let typed = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form.filter");
  if (!form) return;
  clearTimeout(typed);
  typed = setTimeout(async () => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
    const answer = await fetch(location.href, { headers: { "X-Fragment": "1", Accept: "text/html" } });
    if (answer.ok) say(refill(await answer.text()));
  }, 200);
});

// All of the page but the form that is being filled in.
function refill(html) {
  const next = new DOMParser().parseFromString(`<main>${html}</main>`, "text/html").querySelector("[data-found]");
  const found = main.querySelector("[data-found]");
  if (!next || !found) return "";
  found.replaceWith(next);
  settle();
  return next.dataset.found;
}

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) { event.preventDefault(); return; }
  if (event.target.method === "post") setTimeout(() => all("button", event.target).forEach((one) => { one.disabled = true; }));
});

document.addEventListener("click", async (event) => {
  if (!event.target.matches("[data-copy]")) return;
  await navigator.clipboard.writeText(event.target.previousElementSibling.textContent);
  say("copied");
});

const current = document.querySelector(".side [aria-current]"); // in a narrow window the menu is a strip
if (current) document.querySelector(".side").scrollLeft = current.offsetLeft - innerWidth / 2 + current.offsetWidth / 2;
all(".picture.wide").forEach(toEnd);
settle();
listen();
