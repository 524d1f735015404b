// Talks to the service: questions, labels, and the stream that says when to ask again.

async function ask(path, options = {}) {
  const response = await fetch(path, { credentials: "same-origin", ...options });
  if (response.status === 401) location.reload(); // the session is over: the service asks for a token
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `the service answered ${response.status}`);
  return answer;
}

export const overview = (range) => ask(`api/overview?${new URLSearchParams({ range })}`);

export const list = (query) => ask(`api/evaluations?${query}`);

export const evaluation = (id) => ask(`api/evaluations/${encodeURIComponent(id)}`);

/** The questions of an evaluation. */
export const shown = (id) => ask(`api/evaluations/${encodeURIComponent(id)}/questions`);

export const label = (id, said) =>
  ask(`api/evaluations/${encodeURIComponent(id)}/labels`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(said),
  });

/** Have a failed evaluation made again. */
export const retry = (id) =>
  ask(`api/evaluations/${encodeURIComponent(id)}/retry`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: "{}",
  });

/** Call `changed` when there is something new, and `state` with live or lost. The browser reconnects by itself. */
export function listen(changed, state) {
  const source = new EventSource("api/changes");
  source.addEventListener("changed", () => { state("live"); changed(); });
  source.addEventListener("open", () => state("live"));
  source.addEventListener("error", () => {
    state("lost");
    if (source.readyState === EventSource.CLOSED) setTimeout(() => listen(changed, state), 3000);
  });
}

/** What a person labels next, without its score, and how far all are. */
export const queueNext = (query) => ask(`api/queue?${new URLSearchParams(query)}`);

/** Say what one thinks of it; the answer has the judge's score. */
export const queueLabel = (id, said) =>
  ask(`api/queue/${encodeURIComponent(id)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(said),
  });
