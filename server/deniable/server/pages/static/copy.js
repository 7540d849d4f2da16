/* Adds a copy button to each snippet. */
for (const pre of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.className = "quiet copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(pre.innerText);
      button.textContent = "Copied";
    } catch { // browsers copy on https and localhost only
      getSelection().selectAllChildren(pre);
      button.textContent = "Selected; press Ctrl+C to copy";
    }
    setTimeout(() => button.textContent = "Copy", 3_000);
  });
  pre.before(button);
}
