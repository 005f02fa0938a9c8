import { beforeAll } from 'vitest'
import type { TestDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { Cli } from './cli.ts'

/** What commands speak to. What is about a running system is tested over both. */
export const WAYS = ['the database', 'a server'] as const
export type Way = (typeof WAYS)[number]

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
