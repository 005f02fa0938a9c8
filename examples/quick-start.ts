import { sluice, task } from 'sluice'

const resize = task({
  name: 'resize',
  lane: 'images',
  timeout: '1m',
  retry: { attempts: 5 },
  run: async (input: { file: string; width: number }, ctx) => {
    ctx.progress(0.5, `resizing ${input.file}`)
    return `${input.file} is ${input.width} pixels wide`
  },
})

// Without DATABASE_URL a real PostgreSQL is started, with its data in .sluice/
const app = await sluice({ tasks: [resize], lanes: { images: { slots: 2 } } })
await app.work({ capacity: 8 }) // from here on this process is a worker, too

const job = await app.submit(resize, { file: 'cat.png', width: 64 }, { key: 'cat.png' })
console.log(await job.result())
await app.close()
