// A worker process for tests whose tasks run in its process pool. argv[2] is JSON: the options of sluice() and work(), or of
// remoteWorker(). It ends when its parent does.
import { remoteWorker, sluice } from 'sluice'
import { hold } from './process-tasks.mjs'

const { options, work, remote } = JSON.parse(process.argv[2])

process.on('disconnect', () => process.exit(1))

const tell = (message) => process.connected && process.send(message, () => {})
const log = Object.fromEntries(
  ['debug', 'info', 'warn', 'error'].map((level) => [
    level,
    (fields, message) => tell({ kind: 'log', level, fields, message, at: Date.now() }),
  ]),
)
const app = remote
  ? await remoteWorker({ ...remote, ...work, log, tasks: [hold] })
  : await sluice({ ...options, log, tasks: [hold] })
process.on('message', (message) => {
  if (!('close' in message)) return
  app.close().then(() => {
    tell({ kind: 'closed' })
    process.disconnect()
  })
})
if (!remote) await app.work(work)
tell({ kind: 'ready', url: app.databaseUrl ?? remote.server })
