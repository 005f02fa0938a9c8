// A program in any language as a task, declared in sluice.yaml.
//   node examples/exec-task/main.mjs
import { loadConfig, sluice } from 'sluice'

const config = await loadConfig({ folder: import.meta.dirname })
const app = await sluice({ config })
await app.work({ capacity: 2 })

const job = await app.submit('checksum', { text: 'to be checked' })
console.log(await job.result())
for (const { level, line } of await app.readLogs(job.id)) console.log(`${level}: ${line}`)

await app.close()
