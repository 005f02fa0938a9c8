// A task, a job, a worker, all in one process. The database is started on first use, in .sluice/ here.
//   npx jiti examples/quick-start.ts
import { sluice, task } from 'sluice'

const greet = task({
  name: 'greet',
  lane: 'interactive',
  run: async (input: { name: string }, ctx) => {
    ctx.log.info('greeting', input.name)
    return `Hello, ${input.name}`
  },
})

const app = await sluice({ tasks: [greet] })
await app.work({ capacity: 4 })

const job = await app.submit(greet, { name: 'Ada' })
console.log(await job.result())

await app.close()
