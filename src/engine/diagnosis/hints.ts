import { randomUUID } from 'node:crypto'
import type { Database } from '../../db/database.ts'
import { Listener } from '../../db/listener.ts'
import { sendHint } from '../../store/send-hint.ts'
import { type Finding, ok } from './finding.ts'

const LIMIT_MS = 3000

/**
 * Checks whether a hint sent on one connection arrives on another. It does not behind a pooler in transaction mode:
 * LISTEN belongs to a server session, and the next transaction may use another one.
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
        } else if (topic === 'ready') sendHint(db, probe).catch(reject) // Also reported when it starts to listen.
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
        'everything works, but jobs start up to one poll later: connect workers directly to the server, or to a session pool',
    },
  ]
}
