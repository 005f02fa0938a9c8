// Waits for a job that fails, and lets Node print the error. argv[2]: the address of the database; argv[3]: what to submit.
import { fail, sluice, task, workflow } from 'sluice'

class CardDeclined extends Error {
  name = 'CardDeclined'
  reason = 'limit'
}

const charge = task({
  name: 'charge',
  retry: { attempts: 1 },
  run: async function chargeCard() {
    throw new CardDeclined('card 4242 was declined', { cause: new TypeError('the bank said no') })
  },
})
const given = task({ name: 'given-up', run: () => Promise.reject(fail('nothing to do')) })
const order = workflow({ name: 'order', steps: (flow) => flow.step('pay', charge, null).result })

const app = await sluice({ database: process.argv[2], tasks: [charge, given], workflows: [order] })
await app.work()
const job = await app.submit(process.argv[3], null)
console.log(job.id)
try {
  await job.result()
} finally {
  await app.close()
}
