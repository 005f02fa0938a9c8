// Writes sql/schema.sql from a database that all migrations have been applied to. A test fails when the file is stale.
// Uses the embedded PostgreSQL and the built files.
//
//   npm run build && npm run schema
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Database } from '../dist/db/database.js'
import { openEmbedded } from '../dist/db/embedded/embedded.js'
import { migrate } from '../dist/db/migrate.js'
import { schemaText } from '../dist/engine/diagnosis/schema-drift.js'
import { describeSchema } from '../dist/store/describe-schema.js'

const file = new URL('../sql/schema.sql', import.meta.url)
const folder = await mkdtemp(join(tmpdir(), 'sluice-schema-'))
// Root's PostgreSQL runs as another user, who must reach it.
await chmod(folder, 0o755)
const embedded = await openEmbedded({ dataFolder: join(folder, 'data') })
try {
  await migrate(embedded.url)
  const db = new Database({ url: embedded.url, maxConnections: 1, applicationName: 'sluice-schema' })
  const text = schemaText(await describeSchema(db))
  await db.close()
  await writeFile(file, text)
} finally {
  await embedded.release()
  await rm(folder, { recursive: true, force: true })
}
