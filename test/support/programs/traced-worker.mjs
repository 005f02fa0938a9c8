// A worker that traces. argv[2]: the address of the database. Tells its parent of every span that has ended.
import { loadConfig, sluice } from 'sluice'
import { setUpTracing } from '../tracer.mjs'

setUpTracing((span) => process.send(span))
process.on('disconnect', () => process.exit(1))
process.env.SLUICE_TEST_TRACED = 'worker'
const { inline, pooled } = await import('../fixtures/traced-tasks.mjs')
// Its pool processes inherit the environment, and have nothing set up yet.
delete process.env.SLUICE_TEST_TRACED

const config = await loadConfig({ folder: process.argv[3] })
const app = await sluice({ database: process.argv[2], tasks: [inline, pooled], config })
process.on('message', () => app.close().then(() => process.disconnect()))
await app.work({ capacity: 4 })
process.send('ready')
