import { expect, test } from 'vitest'
import { remoteWorker } from '../../src/app/remote-worker.ts'
import { SluiceClient } from '../../src/client/client.ts'
import { task } from '../../src/index.ts'
import { Cli } from '../cli/cli.ts'

const cli = new Cli()
const KEY = `slk_${'A'.repeat(43)}`
/** No loopback address by its name, and nobody listens there. */
const REMOTE = 'http://0.0.0.0:1'
const WARNING = `${REMOTE} is used without TLS: anyone on the network path can read the key`
const LOCAL = ['http://127.0.0.1:1', 'http://localhost:1', 'http://[::1]:1', 'https://0.0.0.0:1']

test('a command warns about a server on another machine that is used without TLS', async () => {
  const environment = { SLUICE_KEY: KEY }

  expect((await cli.run(['ps', '--server', REMOTE], { environment })).stderr).toContain(WARNING)
  for (const server of LOCAL)
    expect((await cli.run(['ps', '--server', server], { environment })).stderr).not.toContain('without TLS')
})

test('a client warns of it', async () => {
  const heard: string[] = []
  for (const server of [REMOTE, ...LOCAL])
    new SluiceClient({ server, key: KEY, onWarning: (message) => heard.push(message) })
  expect(heard).toEqual([expect.stringContaining(WARNING)])

  const warned = new Promise<Error>((resolve) => process.once('warning', resolve))
  new SluiceClient({ server: REMOTE, key: KEY })
  expect((await warned).message).toContain(WARNING)
})

test('a worker warns of it in its log', async () => {
  const heard: string[] = []
  const log = { debug() {}, info() {}, warn: (_: object, message: string) => heard.push(message), error() {} }
  const working = remoteWorker({
    server: REMOTE,
    key: KEY,
    tasks: [task({ name: 'nothing', run: () => null })],
    log,
  })

  await expect(working).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  expect(heard).toContainEqual(expect.stringContaining(WARNING))
})
