import type { Reader } from './setting-value.ts'

/** The named ranges that the server's proxy parser supports. */
const NAMED: ReadonlySet<string> = new Set(['loopback', 'linklocal', 'uniquelocal'])

/**
 * The proxies whose `X-Forwarded-For` the server trusts: addresses, ranges such as 10.0.0.0/8, or
 * `loopback`. The range of all addresses is rejected, because then any client could claim any address.
 */
export const proxies: Reader<string | readonly string[], readonly string[]> = {
  read(value) {
    const list = typeof value === 'string' ? value.split(',') : value
    if (!Array.isArray(list) || list.length === 0) return undefined
    const named = list.map((each) => (typeof each === 'string' ? each.trim() : ''))
    return named.every(isProxy) ? named : undefined
  },
  readText: (text) => proxies.read(text),
  expected: 'addresses or ranges of proxies, such as 10.0.0.5, 10.1.0.0/16 or loopback',
  bound: 'addresses, ranges',
  format: (value) => value.join(', '),
  placeholder: 'addresses',
  written: { type: ['string', 'array'] },
  words: [],
  stored: { type: 'array' },
}

function isProxy(text: string): boolean {
  if (NAMED.has(text)) return true
  const [address = '', prefix, ...rest] = text.split('/')
  if (rest.length > 0) return false
  const bits = isIPv4(address) ? 32 : isIPv6(address) ? 128 : 0
  if (bits === 0) return false
  return prefix === undefined || (/^[1-9]\d{0,2}$/.test(prefix) && Number(prefix) <= bits)
}

function isIPv4(text: string): boolean {
  const parts = text.split('.')
  return parts.length === 4 && parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256)
}

function isIPv6(text: string): boolean {
  const halves = text.split('::')
  if (halves.length > 2) return false
  const groups = halves.flatMap((half) => (half === '' ? [] : half.split(':')))
  const full = halves.length === 1 ? groups.length === 8 : groups.length < 8
  return full && groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))
}
