/* Shows the value of a slider while it moves, and clears its field, so that the slider counts. */
const scales = {
  epsilon: (position) => String(Number(position)),
  people: (position) => Number((10 ** position).toPrecision(2)).toLocaleString("en"),
  error: (position) => `${Number((100 * 10 ** position).toPrecision(2))} % of the range`,
};
for (const [name, text] of Object.entries(scales)) {
  const slider = document.getElementById(`${name}-slider`);
  slider?.addEventListener("input", () => {
    document.getElementById(`${name}-shown`).textContent = text(slider.value);
    slider.setAttribute("aria-valuetext", text(slider.value));
    document.getElementById(name).value = "";
    const by = document.getElementById(`by-${name}`);
    if (by) by.checked = true;
  });
}
