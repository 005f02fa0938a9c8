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

/** In the order in which somebody new needs them. */
const TAGS: readonly (readonly [name: string, description: string])[] = [
  ['jobs', 'Submit jobs, follow them, act on them'],
  ['results', 'Results that are made once'],
  ['schedules', 'Jobs that are submitted by the clock'],
  ['lanes', 'How much runs at once'],
  ['workers', 'Who runs what'],
  ['fleet', 'Pools of workers, and what was decided about them'],
  ['live', 'How the system stands and stood'],
  ['budgets', 'What running jobs draw from: memory of GPUs, licences'],
  ['admission', 'How much may enter'],
  ['access', 'Keys, roles, sessions, the audit'],
  ['worker protocol', 'For workers without access to the database'],
  ['server', 'Health, metrics, this description'],
]

/** Answers that no schema writes: texts, streams, and what is made elsewhere. */
const UNWRITTEN: Readonly<Record<string, object>> = {
  '/metrics': { 200: textAnswer('Metrics in the text format of Prometheus', 'text/plain') },
  '/openapi.json': { 200: { description: 'This description', type: 'object' } },
  '/api/v1/live': {
    200: textAnswer('Events, for as long as the connection lasts', 'text/event-stream'),
  },
  '/api/v1/jobs/:id/stream': {
    200: textAnswer('Events, until the job has ended', 'text/event-stream'),
    204: { description: 'The client has had all events', type: 'null' },
  },
}

function textAnswer(description: string, type: string): object {
  return { description, content: { [type]: { schema: { type: 'string' } } } }
}

const PROBLEM = { content: { [PROBLEM_TYPE]: { schema: Problem } } }

/** Wrong keys are counted wherever keys are looked at, and submissions wherever there is a ceiling. */
const TOO_MANY = {
  ...PROBLEM,
  description:
    'At the ceiling, or too many wrong keys came from this address: try again after Retry-After seconds',
  headers: { 'Retry-After': { type: 'integer', minimum: 1, description: 'Whole seconds' } },
}

/**
 * The name of an operation in generated clients: `GET /api/v1/jobs/:id/logs` is `getJobLogs`. It follows from the address, so
 * it stays as long as that does.
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

/** Answers are described by their status where nothing else is said of them. */
function withWords(response: object | undefined): object {
  const described = Object.entries(response ?? {}).map(([status, schema]) => [
    status,
    { description: STATUS_CODES[status] ?? 'Done', ...schema },
  ])
  return Object.fromEntries(described)
}

/** Collects the routes that are declared after it. */
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
            default: { description: 'Refused or failed', ...PROBLEM },
          },
        },
      }
    },
  })
}

/** `/openapi.json`, and a page to read it at `/docs`. */
export async function registerReference(server: Server): Promise<void> {
  server.get(
    '/openapi.json',
    {
      config: { access: 'public' },
      schema: { summary: 'This description', tags: ['server'] },
    },
    async (_request, reply) => {
      // Written anew each time it would cost 10 ms; it cannot change while the server runs.
      document ??= JSON.stringify(server.swagger())
      return reply
        .type('application/json')
        .serializer((text: unknown) => String(text))
        .send(document)
    },
  )
  let document: string | undefined
  await server.register(async (pages) => {
    // The plugin declares its own routes. Each of them is opened here by its object, and nothing else is.
    pages.addHook('onRoute', (route) => {
      route.config = { ...route.config, access: 'public' }
    })
    await pages.register(swaggerUi, {
      routePrefix: '/docs',
      staticCSP: PAGE_CSP,
      uiConfig: {
        validatorUrl: null,
        docExpansion: 'list',
        // Which permission each operation needs.
        showExtensions: true,
        // The other layout has a bar for reading descriptions of other servers, which the policy of this page forbids.
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
