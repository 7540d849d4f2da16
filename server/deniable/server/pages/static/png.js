/* Adds a button for a PNG next to each SVG link. The browser draws the PNG, at twice the size. */
const TIMES = 2;

async function draw(link) {
  const image = new Image();
  image.src = link.href;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = TIMES * image.naturalWidth;
  canvas.height = TIMES * image.naturalHeight;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

for (const link of document.querySelectorAll("a[data-png]")) {
  const button = document.createElement("button");
  button.className = "quiet";
  button.textContent = "PNG";
  button.addEventListener("click", async () => save(await draw(link), link.dataset.png));
  link.after(" ", button);
}
