// Submits a job and works on it, without tracing. argv[2]: the address of the database. Prints its id, and how much of
// OpenTelemetry was loaded.
import { createRequire } from 'node:module'
import { sluice, task } from 'sluice'

const app = await sluice({ database: process.argv[2], tasks: [task({ name: 'plain', run: () => 1 })] })
const job = await app.submit('plain', null)
await app.work()
await job.result()
await app.close()
const loaded = Object.keys(createRequire(import.meta.url).cache).filter((name) =>
  name.includes('opentelemetry'),
)
console.log(JSON.stringify({ id: job.id, loaded }))
