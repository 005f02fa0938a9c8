import { messageOf, SluiceError } from '../../errors.ts'
import { explainInexact, findInexactNumber, type InexactNumber } from '../../model/exact-numbers.ts'
import { withoutSecrets } from '../../model/redact.ts'
import type { Server } from '../parts.ts'

/**
 * Bodies are JSON in UTF-8 and nothing else. Bytes that are no UTF-8 are refused instead of being replaced, and so are
 * keys that reach for a prototype. An empty body counts as none: whether one is needed is for the route to say.
 */
export function registerJsonBody(server: Server): void {
  const parse = server.getDefaultJsonParser('error', 'error')
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (body.length === 0) return done(null, undefined)
    const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(request.headers['content-type'] ?? '')?.[1]
    if (charset !== undefined && !/^utf-?8$/i.test(charset))
      return done(
        new SluiceError(
          'UNSUPPORTED_MEDIA_TYPE',
          'the body must be JSON in UTF-8, not in another character set',
        ),
      )
    try {
      const text = decoder.decode(body as Buffer)
      void parse(request, text, (error, value) => {
        const inexact = error === null ? findInexactNumber(text) : undefined
        if (inexact !== undefined) done(losesDigits(inexact))
        else done(error === null ? null : whyNot(text), value)
      })
    } catch (error) {
      done(unreadable(error))
    }
  })
}

/** JavaScript would store another number than the one that was sent, and nobody would hear of it. */
function losesDigits(inexact: InexactNumber): SluiceError {
  const argument = inexact.path === '' ? 'body' : withoutSecrets(inexact.path)
  return new SluiceError('INVALID_ARGUMENT', withoutSecrets(explainInexact({ ...inexact, path: argument })), {
    details: { argument },
  })
}

/** Fastify says the same of every text that it does not take. */
function whyNot(text: string): SluiceError {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return unreadable(error)
  }
  const argument = findPrototype(value) ?? '__proto__'
  return new SluiceError(
    'INVALID_ARGUMENT',
    `${withoutSecrets(argument)} in the body: a key with this name could change the prototype of objects and is rejected: use another name`,
    { details: { argument } },
  )
}

interface JsonNode {
  readonly node: unknown
  readonly key: string
  readonly above: JsonNode | undefined
}

/** Level by level, as the parser looks for it: the first key that it does not take, with those it lies in. */
function findPrototype(value: unknown): string | undefined {
  let level: JsonNode[] = [{ node: value, key: '', above: undefined }]
  while (level.length > 0) {
    const below: JsonNode[] = []
    for (const at of level) {
      if (typeof at.node !== 'object' || at.node === null) continue
      if (Object.hasOwn(at.node, '__proto__')) return pathOf(at, '__proto__')
      for (const [key, node] of Object.entries(at.node)) {
        const isObject = typeof node === 'object' && node !== null
        if (isObject && key === 'constructor' && Object.hasOwn(node, 'prototype'))
          return pathOf(at, 'constructor.prototype')
        if (isObject) below.push({ node, key, above: at })
      }
    }
    level = below
  }
  return undefined
}

/** At most ten keys of 50 characters, the last ones: there may be a hundred thousand, of any length. */
function pathOf(found: JsonNode, last: string): string {
  const keys = [last]
  let at: JsonNode | undefined = found
  for (; at?.above !== undefined && keys.length < MAX_KEYS; at = at.above) keys.unshift(at.key.slice(0, 50))
  return `${at?.above === undefined ? '' : '…'}${keys.join('.')}`
}

const MAX_KEYS = 10

/** V8 quotes the text around the mistake, whatever is in it. */
const QUOTED = /,? ?(?:\.\.\.)?".*"(?:\.\.\.)? is not valid JSON$/s

function unreadable(cause: unknown): SluiceError {
  const utf8 = cause instanceof TypeError
  const why = utf8 ? 'its bytes are not valid UTF-8' : messageOf(cause).replace(QUOTED, '')
  return new SluiceError('INVALID_ARGUMENT', `the body cannot be read as JSON: ${why}`, {
    cause,
    details: { argument: 'body' },
  })
}
