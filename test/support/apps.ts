import { afterEach, expect } from 'vitest'
import { type Log, type Sluice, type SluiceOptions, sluice } from '../../src/index.ts'
import type { TestDatabase } from './database.ts'
import { throughServer, worksThroughServers } from './through-server.ts'

export interface LoggedLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: Readonly<Record<string, unknown>>
  readonly message: string
}

export interface Apps {
  /** Opens Sluice on the file's database; it is closed after the test. Short graces, unless told otherwise. */
  open(options?: SluiceOptions): Promise<Sluice>
  /** What the programs of the present test have logged. */
  readonly logged: readonly LoggedLine[]
}

/**
 * Programs on a test database. After each test they are closed, and then nothing may be left behind: no job that
 * runs under nobody, no slot that is held.
 */
export function useApps(database: Pick<TestDatabase, 'url' | 'sql'>): Apps {
  const open: Sluice[] = []
  const logged: LoggedLine[] = []
  const keep = (level: LoggedLine['level']) => (fields: object, message: string) => {
    logged.push({ level, fields: { ...fields }, message })
  }
  const log: Log = { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') }

  afterEach(async () => {
    await Promise.all(open.splice(0).map((app) => app.close()))
    logged.length = 0
    const left = await database.sql<{ running: number; held: number }>(
      `select (select count(*) from sluice.jobs where state = 'running')::integer as running,
              (select count(*) from sluice.holdings)::integer as held`,
    )
    expect(left[0], 'what is left when every worker has stopped').toEqual({ running: 0, held: 0 })
  })
  return {
    logged,
    async open(options = {}) {
      const all: SluiceOptions = {
        database: database.url,
        log,
        grace: '200ms',
        shutdownGrace: '2s',
        ...options,
      }
      const direct = await sluice(all)
      const app = worksThroughServers() ? throughServer(direct, all, all.log ?? log) : direct
      open.push(app)
      return app
    },
  }
}
