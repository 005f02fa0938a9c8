/**
 * For the reference page: opens a session with the token behind the `#` of its address, which no server and no log sees.
 * From then on requests tried out on the page carry the session's cookie, and the header that changes need.
 */
export const SIGN_IN_SCRIPT = `
(async () => {
  const token = /^#token=([\\w-]+)$/.exec(location.hash)?.[1]
  if (token === undefined) return
  history.replaceState(null, '', location.pathname)
  const answer = await fetch('/api/v1/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  })
  const body = await answer.json()
  if (answer.ok) sessionStorage.setItem('sluice-csrf', body.csrfToken)
  const line = document.createElement('p')
  line.style.cssText = 'margin: 0; padding: 8px 20px; font-family: sans-serif'
  line.textContent = answer.ok
    ? 'Signed in as ' + body.name + ' (' + body.role + ').'
    : 'Not signed in: ' + body.detail
  document.body.prepend(line)
})()
`

/** Runs in the page, before each request that is tried out. */
export function addCsrfToken(request: { headers: Record<string, string> }): object {
  const storage = (globalThis as { sessionStorage?: { getItem(name: string): string | null } }).sessionStorage
  const token = storage?.getItem('sluice-csrf')
  if (token !== undefined && token !== null) request.headers['x-sluice-csrf'] = token
  return request
}
