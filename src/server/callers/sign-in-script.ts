/**
 * For the reference page: opens a session with the token behind the `#` of its address, which no server and no log sees.
 * From then on requests tried out on the page carry the session's cookie, and the header that changes need. A page that is
 * loaded again in the same tab says who is signed in.
 */
export const SIGN_IN_SCRIPT = `
(async () => {
  const token = /^#token=([\\w-]+)$/.exec(location.hash)?.[1]
  if (token === undefined && sessionStorage.getItem('sluice-csrf') === null) return
  if (token !== undefined) history.replaceState(null, '', location.pathname)
  const signIn = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  }
  const answer = await fetch('/api/v1/session', token === undefined ? {} : signIn)
  const body = await answer.json()
  if (answer.ok) sessionStorage.setItem('sluice-csrf', body.csrfToken)
  else sessionStorage.removeItem('sluice-csrf')
  const why =
    answer.status === 401
      ? 'an address with a token works once, for 15 minutes, and a session ends after 12 hours. ' +
        'Restart sluice up for a new address, or choose Authorize and enter a key.'
      : body.detail
  const line = document.createElement('p')
  line.style.cssText = 'margin: 0; padding: 8px 20px; font-family: sans-serif; color: #222; background: #fff'
  line.textContent = answer.ok
    ? 'Signed in as ' + body.name + ' (' + body.role + ').'
    : 'Not signed in: ' + why
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
