// How the search orders what it found: a page whose title has the words that were typed comes first, and the
// changelog and the auditor's pages come last. The numbers above `score` are Sphinx's own.
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: function (result) {
    const [page, title, , , score] = result;
    const words = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
    const named = words.filter((word) => title.toLowerCase().includes(word)).length;
    return score + 10 * named + (words.length && title.toLowerCase().includes(words.join(" ")) ? 10 : 0)
      - (page.startsWith("docs/") ? 0 : 20);
  },
};
