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
  'POST /api/v1/jobs/actions': 'workers:manage',
  'GET /api/v1/jobs/:id': 'jobs:read',
  'GET /api/v1/jobs/:id/stream': 'jobs:read',
  'GET /api/v1/jobs/:id/why': 'jobs:read',
  'GET /api/v1/jobs/:id/tree': 'jobs:read',
  'GET /api/v1/jobs/:id/trace': 'jobs:read',
  'GET /api/v1/jobs/:id/attempts': 'jobs:read',
  'GET /api/v1/jobs/:id/logs': 'jobs:read',
  'DELETE /api/v1/jobs/:id': 'jobs:cancel',
  'POST /api/v1/jobs/:id/approve': 'jobs:approve',
  'POST /api/v1/jobs/:id/reject': 'jobs:approve',
  'POST /api/v1/jobs/:id/retry': 'jobs:submit',
  'PATCH /api/v1/jobs/:id/window': 'jobs:cancel',

  'GET /api/v1/tasks': ['jobs:submit', 'jobs:read'],
  'PUT /api/v1/results/:name/:key': 'jobs:submit',
  'GET /api/v1/results/:name/:key': 'jobs:read',

  'GET /api/v1/schedules': ['jobs:submit', 'jobs:read:all'],
  'GET /api/v1/schedules/:name': ['jobs:submit', 'jobs:read:all'],
  'GET /api/v1/schedules/:name/firings': ['jobs:submit', 'jobs:read:all'],
  'POST /api/v1/schedules': 'jobs:submit',
  'PATCH /api/v1/schedules/:name': 'jobs:submit',
  'DELETE /api/v1/schedules/:name': 'jobs:submit',
  'POST /api/v1/schedules/:name/fire': 'jobs:submit',
  'POST /api/v1/schedules/:name/reset': 'jobs:submit',

  'GET /api/v1/admin/admission': 'workers:view',
  'PATCH /api/v1/admin/admission': 'workers:manage',
  'POST /api/v1/admin/admission/reset': 'workers:manage',
  'GET /api/v1/admin/budgets': 'workers:view',
  'GET /api/v1/admin/budgets/:name': 'workers:view',
  'PATCH /api/v1/admin/budgets/:name': 'workers:manage',
  'POST /api/v1/admin/budgets/:name/reset': 'workers:manage',
  'GET /api/v1/admin/workers/lanes': 'workers:view',
  'GET /api/v1/admin/workers/lanes/:name': 'workers:view',
  'PATCH /api/v1/admin/workers/lanes/:name': 'workers:manage',
  'POST /api/v1/admin/workers/lanes/:name/reset': 'workers:manage',
  'GET /api/v1/admin/workers/status': 'workers:view',
  'POST /api/v1/admin/workers/:name/drain': 'workers:manage',
  'POST /api/v1/admin/workers/:name/undrain': 'workers:manage',
  'POST /api/v1/admin/workers/:name/stop': 'workers:manage',
  'POST /api/v1/admin/workers/jobs/:id/cancel': 'workers:manage',
  'PATCH /api/v1/admin/workers/jobs/:id/priority': 'workers:manage',

  'POST /api/v1/workers': 'workers:run',
  'POST /api/v1/workers/:id/cycle': 'workers:run',
  'POST /api/v1/workers/:id/heartbeat': 'workers:run',
  'POST /api/v1/workers/:id/logs': 'workers:run',
  'POST /api/v1/workers/:id/progress': 'workers:run',
  'POST /api/v1/workers/:id/steps/load': 'workers:run',
  'POST /api/v1/workers/:id/steps/save': 'workers:run',
  'POST /api/v1/workers/:id/checkpoint/load': 'workers:run',
  'POST /api/v1/workers/:id/checkpoint/save': 'workers:run',
  'POST /api/v1/workers/:id/devices': 'workers:run',
  'POST /api/v1/workers/:id/broken': 'workers:run',
  'POST /api/v1/workers/:id/close': 'workers:run',
}

/** Pages of the reference. They are open, each by its own object; their names are the plugin's. */
export const OPEN_PAGES = /^(?:GET|HEAD) \/docs(?:\/|$)/
