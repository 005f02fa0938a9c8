import { expect, test } from 'vitest'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { withUser } from '../support/global-setup.ts'

const database = useDatabase({ direct: true })

test('a server without a free connection is told apart from one that cannot be reached', async () => {
  const role = `crowded_${database.name}`
  await database.admin(`create role ${role} login connection limit 0`)
  try {
    const opened = sluice({ database: withUser(database.directUrl, role) })
    await expect(opened).rejects.toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
      message: expect.stringMatching(
        /^PostgreSQL has no free connection: too many connections for role .* Raise max_connections/,
      ) as string,
    })
  } finally {
    await database.admin(`drop role ${role}`)
  }
})
