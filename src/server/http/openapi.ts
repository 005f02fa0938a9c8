import { STATUS_CODES } from 'node:http'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { PROBLEM_TYPE, Problem } from '../../api/problem.ts'
import { isPermission } from '../../model/permissions.ts'
import { addCsrfToken, SIGN_IN_SCRIPT } from '../callers/sign-in-script.ts'
import type { Server, ServerParts } from '../parts.ts'

/** The reference page loads nothing from elsewhere and cannot be framed. Its styles are written into the page by its script. */
const PAGE_CSP = {
  'default-src': "'none'",
  'script-src': "'self'",
  'style-src': ["'self'", "'unsafe-inline'"],
  'img-src': ["'self'", 'data:'],
  'font-src': ["'self'", 'data:'],
  'connect-src': "'self'",
  'base-uri': "'none'",
  'form-action': "'none'",
  'frame-ancestors': "'none'",
}

/** Ordered so that a new user finds the most useful groups first. */
const TAGS: readonly (readonly [name: string, description: string])[] = [
  ['jobs', 'Submit, follow and control jobs'],
  ['results', 'Results that are computed once per input'],
  ['schedules', 'Jobs that are submitted at set times'],
  ['lanes', 'Lanes and their concurrency limits'],
  ['workers', 'Workers and their running jobs'],
  ['fleet', 'Pools of workers and scaling decisions'],
  ['live', 'System status and its recent history'],
  ['budgets', 'Resources that running jobs share, such as GPU memory and licences'],
  ['admission', 'Limits on unfinished jobs'],
  ['access', 'Keys, roles, sessions and the audit log'],
  ['worker protocol', 'For workers without access to the database'],
  ['server', 'Health, metrics and this document'],
]

/** Responses that are not serialised by a schema: texts, streams and this document. */
const UNWRITTEN: Readonly<Record<string, object>> = {
  '/metrics': { 200: textAnswer('Metrics in the Prometheus text format', 'text/plain') },
  '/openapi.json': { 200: { description: 'This document', type: 'object' } },
  '/api/v1/live': {
    200: textAnswer('Events, for as long as the connection lasts', 'text/event-stream'),
  },
  '/api/v1/jobs/:id/stream': {
    200: textAnswer('Events, until the job has ended', 'text/event-stream'),
    204: { description: 'The client has already received all events', type: 'null' },
  },
}

function textAnswer(description: string, type: string): object {
  return { description, content: { [type]: { schema: { type: 'string' } } } }
}

const PROBLEM = { content: { [PROBLEM_TYPE]: { schema: Problem } } }

/** Every operation that checks keys can return 429 for wrong keys; submissions also return it at an admission limit. */
const TOO_MANY = {
  ...PROBLEM,
  description:
    'An admission limit is reached, this key has too many concurrent requests, or this address sent too many wrong keys: retry after Retry-After seconds',
  headers: { 'Retry-After': { type: 'integer', minimum: 1, description: 'Whole seconds' } },
}

/**
 * The name of an operation in generated clients: `GET /api/v1/jobs/:id/logs` is `getJobLogs`. It is derived from the address, so
 * it does not change unless the address does.
 */
function operationId(method: string, url: string): string {
  const steps = url
    .replace(/^\/api\/v1/, '')
    .split('/')
    .slice(1)
  const words = steps.flatMap((step, i) => {
    if (step.startsWith(':')) return []
    const one = steps[i + 1]?.startsWith(':') === true
    return (one ? step.replace(/s$/, '') : step).split(/\W/)
  })
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}

/** Uses the text of the status code for responses without a description. */
function withWords(response: object | undefined): object {
  const described = Object.entries(response ?? {}).map(([status, schema]) => [
    status,
    { description: STATUS_CODES[status] ?? 'Done', ...schema },
  ])
  return Object.fromEntries(described)
}

/** Must be called before the routes are declared, because it records them as they are added. */
export async function registerOpenApi(server: Server, { version }: ServerParts): Promise<void> {
  await server.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Sluice',
        version,
        description: 'Durable jobs and workflows on PostgreSQL with bounded concurrency at every level.',
      },
      tags: TAGS.map(([name, description]) => ({ name, description })),
      components: {
        securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'An API key: slk_...' } },
      },
    },
    transform: ({ schema, url, route }) => {
      const { access } = route.config ?? {}
      const open = access === 'public' || access === 'sign-in'
      const needs = [access ?? []].flat().filter(isPermission)
      const described = schema as { description?: string; response?: object; hide?: boolean } | undefined
      return {
        url,
        schema: {
          ...described,
          operationId: operationId(String(route.method), url),
          security: open ? [] : [{ key: [] }],
          ...(needs.length > 0 && { 'x-permission': needs }),
          response: {
            ...withWords({ ...UNWRITTEN[url], ...described?.response }),
            ...(access !== 'public' && { 429: TOO_MANY }),
            default: { description: 'Rejected or failed', ...PROBLEM },
          },
        },
      }
    },
  })
}

/** `/openapi.json`, and `/docs`, a page that displays it. */
export async function registerReference(server: Server): Promise<void> {
  server.get(
    '/openapi.json',
    {
      config: { access: 'public' },
      schema: { summary: 'This document', tags: ['server'] },
    },
    async (_request, reply) => {
      // Cached: building it takes 10 ms, and it cannot change while the server runs.
      document ??= JSON.stringify(server.swagger())
      return reply
        .type('application/json')
        .serializer((text: unknown) => String(text))
        .send(document)
    },
  )
  let document: string | undefined
  await server.register(async (pages) => {
    // The plugin declares its own routes. Only those are made public here.
    pages.addHook('onRoute', (route) => {
      route.config = { ...route.config, access: 'public' }
    })
    await pages.register(swaggerUi, {
      routePrefix: '/docs',
      staticCSP: PAGE_CSP,
      uiConfig: {
        validatorUrl: null,
        docExpansion: 'list',
        // Displays the permission that each operation requires.
        showExtensions: true,
        // The default layout has a bar for loading documents of other servers, which the CSP of this page forbids.
        layout: 'BaseLayout',
        requestInterceptor: addCsrfToken as never,
      },
      validatorUrl: false,
      theme: {
        title: 'Sluice: HTTP reference',
        js: [{ filename: 'sign-in.js', content: SIGN_IN_SCRIPT }],
      },
    })
  })
}
