// A worker without a database that traces. argv[2]: the address of a server, argv[3]: a key. Tells its parent of every span
// that has ended.
import { remoteWorker, task } from 'sluice'
import { setUpTracing } from '../tracer.mjs'

setUpTracing((span) => process.send(span))
process.on('disconnect', () => process.exit(1))

const faraway = task({ name: 'faraway', run: () => 'done' })
const worker = await remoteWorker({ server: process.argv[2], key: process.argv[3], tasks: [faraway] })
process.on('message', () => worker.close().then(() => process.disconnect()))
process.send('ready')
