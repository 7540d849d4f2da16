/* Loads the page anew when there is something new to see; asks while somebody looks at it. */
const waiting = document.getElementById("waiting");
const PAUSE = 2_000, MOST_FAILURES = 5;

async function look(failures) {
  if (!document.hidden) {
    try {
      const answer = await fetch(waiting.dataset.turn);
      if (answer.status === 401) return; // signed out
      if (!answer.ok) throw new Error(answer.status);
      const { reports, state } = await answer.json();
      if (String(reports) !== waiting.dataset.reports || state !== waiting.dataset.state) return location.reload();
      failures = 0;
    } catch {
      if (++failures === MOST_FAILURES) return;
    }
  }
  setTimeout(look, PAUSE * (failures + 1), failures);
}

setTimeout(look, PAUSE, 0);
