import { afterAll } from 'vitest'
import type { Cli, Running } from '../cli/cli.ts'
import type { TestDatabase } from './database.ts'
import { until } from './until.ts'

/** Workers of one slot each, short leases, and a pool that starts them as processes. */
export const POOL_CONFIG = `
heartbeat: 300ms
stale: 5s
shutdownGrace: 5s
admission: { maxActive: 15 }
tasks:
  work: { exec: [sleep, '0.3'], retry: { attempts: 1 } }
fleet:
  pools:
    burst: { max: 3, idle: 5s, cooldown: 500ms, arrival: 20s }
`

/** Servers with a pool, and what they and their workers have done. Whoever is left is ended when the file is done. */
export class FleetProcesses {
  readonly #database: TestDatabase
  readonly #cli: Cli

  constructor(database: TestDatabase, cli: Cli) {
    this.#database = database
    this.#cli = cli
    afterAll(async () => {
      for (const pid of await this.pids()) kill(pid)
    })
  }

  async serve(command: 'up' | 'server'): Promise<Running> {
    const running = this.#cli.start([command, '--port', '0'])
    await until(() => running.stdout.includes('listening on'), `${command} to listen`, 60_000)
    return running
  }

  /** Processes of workers that have not ended. */
  async pids(): Promise<number[]> {
    const rows = await this.#database.sql<{ pid: number }>(
      'select pid from sluice.workers where ended_at is null order by id',
    )
    return rows.map(({ pid }) => pid)
  }

  async count(where: string): Promise<number> {
    const [row] = await this.#database.sql<{ n: number }>(
      `select count(*)::integer as n from sluice.jobs where ${where}`,
    )
    return row!.n
  }

  /** The most workers that lived at one moment, by what the database says of all of them. */
  async mostWorkers(): Promise<number> {
    const [row] = await this.#database.sql<{ workers: number }>(
      `select max(n)::integer as workers
         from (select (select count(*) from sluice.workers o where o.started_at <= w.started_at
                          and coalesce(o.ended_at, 'infinity') > w.started_at) as n from sluice.workers w) x`,
    )
    return row!.workers
  }
}

/** As a machine that goes away: no chance to clean up. */
export function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has gone by itself.
  }
}
