import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test, vi } from 'vitest'
import { sluice } from '../../src/index.ts'
import { Cli } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { FleetProcesses, kill, POOL_CONFIG } from '../support/fleet-processes.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 120_000 })

const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url, SLUICE_LOG: 'warn' })
const fleet = new FleetProcesses(database, cli)

test('a server that is killed between ending a request and stopping what it had started: the next one stops it', async () => {
  const program = fileURLToPath(new URL('../support/fixtures/provisioner.mjs', import.meta.url))
  const file = join(cli.folder, 'world.json')
  await cli.write('world.json', JSON.stringify({ noRoomFor: [], hangsAt: 'stop', instances: {} }))
  const options = `options: { argv: [${JSON.stringify(program)}, ${JSON.stringify(file)}] }`
  await cli.write(
    'sluice.yaml',
    `${POOL_CONFIG}    cloud: { provisioner: command, ${options}, labels: { far: true }, max: 1, cooldown: 1h, arrival: 1s }\n`.replace(
      'retry: { attempts: 1 } }',
      "retry: { attempts: 1 } }\n  far: { exec: ['true'], requires: { far: true } }",
    ),
  )
  interface World {
    hanging?: number
    hangsAt?: string
    instances: Record<string, { state: string }>
  }
  const world = () => JSON.parse(readFileSync(file, 'utf8')) as World
  const first = await fleet.serve('server')
  const app = await sluice({ database: database.url, publish: false })
  try {
    await app.submit('far', null)
    await until(() => world().hanging !== undefined, 'the first to set out to stop it', 60_000)
    await first.end('SIGKILL')
    kill(world().hanging!)
    const { instances } = world()
    expect(Object.values(instances).map(({ state }) => state)).toEqual(['starting'])
    writeFileSync(file, JSON.stringify({ ...world(), hangsAt: undefined }))
    // As if the time limit of its call had passed.
    await database.sql('update sluice.fleet_decisions set stop_at = now() where stop_at is not null')

    const second = await fleet.serve('server')
    const states = () => Object.values(world().instances).map(({ state }) => state)
    await until(() => states().join() === 'stopped', 'the second to stop it', 60_000)
    expect(await second.end('SIGTERM')).toBe(0)
  } finally {
    await app.close()
  }
})
