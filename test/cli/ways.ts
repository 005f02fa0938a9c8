import { beforeAll } from 'vitest'
import type { TestDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { Cli } from './cli.ts'

export type Way = 'the database' | 'a server'

/**
 * What commands speak to. What is about a running system is tested over both: in the long tests, since each command is a
 * process. Otherwise `through-server.test.ts` compares what they print.
 */
export const WAYS: readonly Way[] =
  process.env.SLUICE_TEST_WAYS === 'all' ? ['the database', 'a server'] : ['the database']

/** No database: whoever speaks to a server needs none, and must not look for one. */
const NOWHERE = 'postgres://127.0.0.1:1/none'

export interface Commands {
  readonly cli: Cli
  /** On the database in both ways, in the same folder: for workers, and for whatever applies the config. */
  readonly direct: Cli
}

/** Commands over a database, or over a server with a key that may do everything. Call it inside a `describe`. */
export function useWay(way: Way, database: TestDatabase): Commands {
  const direct = new Cli({ DATABASE_URL: database.url })
  if (way === 'the database') return { cli: direct, direct }
  const server = useServer(database)
  let key = ''
  beforeAll(async () => {
    key = await server.keyOf('platform_admin', 'root')
  })
  const environment = () => ({ DATABASE_URL: NOWHERE, SLUICE_SERVER: server.url, SLUICE_KEY: key })
  return { cli: new Cli(environment, direct), direct }
}
