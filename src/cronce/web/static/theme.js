// Before anything is painted: the theme that this viewer chose, if one was chosen. Else the system's stays.
try {
  const chosen = localStorage.getItem("cronce-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* storage may be forbidden: then it is the system's */ }
