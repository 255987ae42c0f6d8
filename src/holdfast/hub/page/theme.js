// Runs before anything is drawn, so that a chosen theme never flashes the other one. A plain script.
(() => {
  const root = document.documentElement;
  const chosen = localStorage.getItem("holdfast-theme");
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  document.addEventListener("switchtheme", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("holdfast-theme", root.dataset.theme);
    document.dispatchEvent(new CustomEvent("themechange"));
  });
})();
