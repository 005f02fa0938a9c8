// A process that uses the embedded database: opens it, says so, and leaves when told to or when killed.
import { pathToFileURL } from 'node:url'
import type { openEmbedded as Open } from '../../src/db/embedded/embedded.ts'

const { module, dataFolder, settings } = JSON.parse(process.argv[2]!) as {
  module: string
  dataFolder: string
  settings: Record<string, string>
}
const say = (line: object): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

const { openEmbedded } = (await import(pathToFileURL(module).href)) as { openEmbedded: typeof Open }
try {
  const database = await openEmbedded({ dataFolder, settings, log: (line) => say({ log: line }) })
  say({ url: database.url })
  process.stdin.once('data', () => {
    void database.release().then(() => {
      say({ released: true })
      process.exit(0)
    })
  })
} catch (error) {
  say({ error: { code: (error as { code?: string }).code, message: (error as Error).message } })
  process.exit(1)
}
