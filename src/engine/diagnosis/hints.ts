import { randomUUID } from 'node:crypto'
import type { Database } from '../../db/database.ts'
import { Listener } from '../../db/listener.ts'
import { sendHint } from '../../store/send-hint.ts'
import { type Finding, ok } from './finding.ts'

const LIMIT_MS = 3000

/**
 * Whether a hint sent on one connection arrives on another. Behind a pooler in transaction mode it does not: LISTEN
 * belongs to a session there, and the next transaction may have another one.
 */
export async function checkHints({ db }: { db: Database }): Promise<Finding[]> {
  const listener = new Listener(db.url)
  const probe = `probe ${randomUUID()}`
  try {
    const heard = await new Promise<boolean>((resolve, reject) => {
      const timer = setTimeout(() => resolve(false), LIMIT_MS)
      listener.subscribe((topic: string) => {
        if (topic === probe) {
          clearTimeout(timer)
          resolve(true)
        } else if (topic === 'ready') sendHint(db, probe).catch(reject) // also said once it listens
      })
      listener.start()
    })
    if (heard) return [ok('hints', 'arrive')]
  } finally {
    await listener.stop()
  }
  return [
    {
      check: 'hints',
      level: 'warning',
      found: 'do not arrive; DATABASE_URL probably names a pooler in transaction mode',
      advice:
        'all works, but jobs start up to one poll later: let workers connect to the server itself, or to a session pool',
    },
  ]
}
