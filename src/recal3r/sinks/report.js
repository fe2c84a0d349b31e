"use strict";

// Where the pointer is in a chart: the numbers there.
for (const chart of document.querySelectorAll(".chart")) {
  const values = JSON.parse(chart.dataset.values);
  const plot = chart.querySelector("svg"), cursor = chart.querySelector(".cursor"), output = chart.querySelector("output");
  const first = values.x[0], last = Math.max(values.x.at(-1), first + 1);
  const show = event => {
    const box = plot.getBoundingClientRect();
    const frame = first + (last - first) * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    let place = 0;
    values.x.forEach((x, i) => { if (Math.abs(x - frame) < Math.abs(values.x[place] - frame)) place = i; });
    const at = 1000 * (values.x[place] - first) / (last - first);
    cursor.setAttribute("d", `M${at} 0V300`);
    const text = value => value === null || value === undefined ? "–" : String(Number(value.toPrecision(3)));
    const band = values.low ? ` (${text(values.low[place])} – ${text(values.high[place])})` : "";
    output.textContent = `frame ${Math.round(values.x[place])}: ${text(values.y[place])}${band}`;
  };
  plot.parentElement.addEventListener("pointermove", show);
  plot.parentElement.addEventListener("pointerdown", show);
  plot.parentElement.addEventListener("pointerleave", () => { cursor.setAttribute("d", ""); output.textContent = ""; });
}

// Timings differ from run to run: they are kept apart from the page, and put into it here.
const timings = JSON.parse(document.getElementById("timings").textContent);
const table = document.querySelector("#time table");
const add = (name, value) => {
  if (value !== null && typeof value === "object") {
    for (const [inner, deeper] of Object.entries(value)) add(`${name}.${inner}`, deeper);
    return;
  }
  const row = table.insertRow(), head = document.createElement("th");
  head.textContent = name.replaceAll("_", " ");
  row.append(head);
  row.insertCell().textContent = typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 5 }) : String(value);
};
for (const [name, value] of Object.entries(timings)) add(name, value);
document.getElementById("time").hidden = table.rows.length === 0;
