// Runs before the page is painted, so that a chosen theme does not flash. Storage may throw when opened from a file.
(function () {
  "use strict";
  try {
    const theme = localStorage.getItem("playbook-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch (error) {
    // No storage: the system's theme it is.
  }
})();
