/* Reloads the page when something has changed. Checks only while the page is visible. */
const waiting = document.getElementById("waiting");
const PAUSE_MILLISECONDS = 2_000, MAX_FAILURES = 5;

async function refresh(failures) {
  if (!document.hidden) {
    try {
      const answer = await fetch(waiting.dataset.status);
      if (answer.status === 401) return; // signed out
      if (!answer.ok) throw new Error(answer.status);
      const status = await answer.json();
      if (["reports", "arrived", "state"].some((key) => String(status[key]) !== waiting.dataset[key])) return location.reload();
      failures = 0;
    } catch {
      if (++failures === MAX_FAILURES) return;
    }
  }
  setTimeout(refresh, PAUSE_MILLISECONDS * (failures + 1), failures);
}

setTimeout(refresh, PAUSE_MILLISECONDS, 0);
