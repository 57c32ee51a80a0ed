// The files that were exported from the model, with the proof and the checksum of each.

function makeExports() {
  if (!report.exports || !report.exports.length) return null;
  const headings = ["file", "format", "bytes", "equal outputs", "engine", "SHA-256"];
  const rows = report.exports.map((each) => [
    each.file,
    each.target,
    each.bytes,
    `${each.equal} of ${each.outputs}`,
    each.engine,
    each.sha256,
  ]);
  return section(
    "exports",
    "Exported files",
    "Each file was run by the engine on test samples, and compared with the model.",
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Exported files" },
      el(
        "table",
        { class: "small" },
        el("thead", {}, el("tr", {}, headings.map((heading) => el("th", { scope: "col" }, heading)))),
        el("tbody", {}, rows.map((row) => el("tr", {}, row.map((value) => el("td", {}, String(value)))))),
      ),
    ),
  );
}
