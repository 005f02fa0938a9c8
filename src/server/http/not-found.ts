import { SluiceError } from '../../errors.ts'
import type { Server } from '../parts.ts'
import { type DashboardPage, isNavigation } from '../routes/dashboard.ts'
import { sendProblem } from './problem.ts'

interface Known {
  readonly method: string
  readonly steps: readonly string[]
}

/** Distinguishes unknown routes, routes that exist with other methods, and addresses of the dashboard. */
export function registerNotFound(server: Server, page: DashboardPage): void {
  const known: Known[] = []
  server.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) known.push({ method: each, steps: url.split('/') })
  })
  server.setNotFoundHandler((request, reply) => {
    const steps = (request.url.split('?', 1)[0] ?? '').split('/')
    const methods = [...new Set(known.filter((each) => fits(each.steps, steps)).map(({ method }) => method))]
    if (methods.length === 0 && isNavigation(request)) return page.send(reply.code(200))
    if (methods.length === 0) {
      const error = new SluiceError(
        'ROUTE_NOT_FOUND',
        'this route does not exist; /openapi.json and /docs list all routes',
      )
      return sendProblem(error, request, reply)
    }
    const allow = methods.sort().join(', ')
    reply.header('allow', allow)
    const error = new SluiceError(
      'METHOD_NOT_ALLOWED',
      `this route does not accept ${request.method}; it accepts ${allow}`,
    )
    return sendProblem(error, request, reply)
  })
}

function fits(route: readonly string[], steps: readonly string[]): boolean {
  if (route.at(-1) === '*') return false
  return (
    route.length === steps.length &&
    route.every((step, at) => (step.startsWith(':') ? steps[at] !== '' : step === steps[at]))
  )
}
