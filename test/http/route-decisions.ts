import type { Access } from '../../src/server/parts.ts'

/**
 * Who may call what. Written down a second time on purpose: a new route, or another decision about one, fails the tests
 * until somebody has thought about it here.
 */
export const DECISIONS: Readonly<Record<string, Access>> = {
  'GET /healthz': 'public',
  'HEAD /healthz': 'public',
  'GET /readyz': 'public',
  'HEAD /readyz': 'public',
  'GET /openapi.json': 'public',
  'GET /metrics': 'metrics',

  'POST /api/v1/session': 'sign-in',
  'GET /api/v1/session': 'caller',
  'DELETE /api/v1/session': 'caller',

  'GET /api/v1/keys': 'access:manage',
  'POST /api/v1/keys': 'access:manage',
  'GET /api/v1/keys/:id': 'access:manage',
  'DELETE /api/v1/keys/:id': 'access:manage',
  'GET /api/v1/roles': 'access:manage',
  'POST /api/v1/roles': 'access:manage',
  'GET /api/v1/roles/:name': 'access:manage',
  'PATCH /api/v1/roles/:name': 'access:manage',
  'DELETE /api/v1/roles/:name': 'access:manage',
  'GET /api/v1/audit': 'access:manage',

  'POST /api/v1/jobs': 'jobs:submit',
  'POST /api/v1/jobs/bulk': 'jobs:submit',
  'GET /api/v1/jobs': 'jobs:read',
  'GET /api/v1/jobs/:id': 'jobs:read',
  'GET /api/v1/jobs/:id/tree': 'jobs:read',
  'GET /api/v1/jobs/:id/trace': 'jobs:read',
  'GET /api/v1/jobs/:id/why': 'jobs:read',
  'GET /api/v1/jobs/:id/attempts': 'jobs:read',
  'GET /api/v1/jobs/:id/logs': 'jobs:read',
  'GET /api/v1/jobs/:id/stream': 'jobs:read',
  'DELETE /api/v1/jobs/:id': 'jobs:cancel',
  'POST /api/v1/jobs/:id/approve': 'jobs:approve',
  'POST /api/v1/jobs/:id/reject': 'jobs:approve',
  'POST /api/v1/jobs/:id/retry': 'jobs:submit',
  'PATCH /api/v1/jobs/:id/window': 'jobs:cancel',
  'POST /api/v1/jobs/actions': 'workers:manage',
}

/** Pages of the reference. They are open, each by its own object; their names are the plugin's. */
export const OPEN_PAGES = /^(?:GET|HEAD) \/docs(?:\/|$)/
