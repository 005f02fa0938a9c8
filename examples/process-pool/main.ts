// Work that would block the event loop runs in a pool of processes, as many as the machine has cores.
//   npx jiti examples/process-pool/main.ts
import { sluice } from 'sluice'
import { countPrimes } from './tasks.ts'

const app = await sluice({ tasks: [countPrimes] })
await app.work({ capacity: 0, pool: { size: 2 } })

const ranges = Array.from({ length: 8 }, (_, i) => ({ from: i * 50_000, to: (i + 1) * 50_000 }))
const jobs = await app.submitMany(countPrimes, ranges)
const counts = await Promise.all(jobs.map((job) => job.result()))
console.log(
  'primes below 400000:',
  counts.reduce((sum, count) => sum + count),
)

await app.close()
