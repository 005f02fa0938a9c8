// Submits as fast as it can, in every way there is, until its parent says a word; then it tells how many were let in.
// argv[2] is JSON: the address of the database, and the name of a task. It ends with its parent.
import pg from 'pg'
import { hasCode, sluice } from 'sluice'

const { database, task } = JSON.parse(process.argv[2])
let racing = true
process.once('message', () => {
  racing = false
})
process.on('disconnect', () => process.exit(1))

const app = await sluice({ database, publish: false, migrate: false })
const client = new pg.Client(database)
await client.connect()

const inTransaction = async () => {
  await client.query('begin')
  try {
    const job = await app.submit(task, null, { transaction: client })
    await client.query('commit')
    return [job]
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}

let admitted = 0
let refused = 0
const attempt = async (submit) => {
  try {
    // Not in one line: the sum would be read before the wait, and others' additions lost.
    const jobs = await submit()
    admitted += jobs.length
  } catch (error) {
    if (!hasCode(error, 'ADMISSION_REJECTED') && error.code !== 'SL007') throw error
    refused++
  }
}

for (let n = 0; racing; n++) {
  await Promise.all([
    attempt(async () => [await app.submit(task, n)]),
    attempt(async () => [await app.submit(task, n)]),
    attempt(async () => [await app.submit(task, n, { key: `${process.pid}/${n}` })]),
    attempt(() => app.submitMany(task, [n, n])),
    attempt(inTransaction),
  ])
}
await client.end()
await app.close()
process.send({ admitted, refused })
process.disconnect()
