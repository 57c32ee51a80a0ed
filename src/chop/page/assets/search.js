// Search for nodes by name, op, module or format.

const search = { hits: [], at: -1 };

function makeSearch() {
  search.input = el("input", {
    type: "search",
    id: "search",
    placeholder: "Search nodes",
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "search-count",
    oninput: find,
    onkeydown: onSearchKey,
  });
  search.count = el("output", { id: "search-count", for: "search" });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      search.input.focus();
    }
  });
  return el(
    "label",
    { class: "field grow" },
    el("span", { class: "unseen" }, "Search nodes"),
    search.input,
    search.count,
  );
}

function searched(node) {
  return [node.name, node.path, node.op, node.weight_format, node.data_format].join(" ").toLowerCase();
}

function find() {
  const words = search.input.value.toLowerCase().split(/\s+/).filter(Boolean);
  search.hits = words.length
    ? nodes
        .map((node, index) => index)
        .filter((index) => words.every((word) => searched(nodes[index]).includes(word)))
    : [];
  search.at = -1;
  graph.matches = new Set(search.hits);
  search.count.textContent = words.length ? `${search.hits.length} found` : "";
  markState();
}

function onSearchKey(event) {
  if (event.key === "Escape") {
    search.input.value = "";
    find();
  }
  if (event.key !== "Enter" || !search.hits.length) return;
  event.preventDefault();
  const step = event.shiftKey ? search.hits.length - 1 : 1;
  search.at = search.at < 0 ? 0 : (search.at + step) % search.hits.length;
  select(search.hits[search.at], "search");
  search.input.focus();
  search.count.textContent = `${search.at + 1} of ${search.hits.length}`;
}
