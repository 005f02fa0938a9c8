import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = createRequire(new URL('../../package.json', import.meta.url))
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/**
 * A peer behind the thinnest route there is: one call per request, no check, no key, no audit. On the Fastify that Sluice
 * has.
 */
export async function serveThinly(enqueueOne) {
  const { default: fastify } = await import(pathToFileURL(root.resolve('fastify')).href)
  const server = fastify()
  server.post('/jobs', async (request, reply) => {
    const id = await enqueueOne(request.body.input)
    reply.code(202)
    return { id: String(id) }
  })
  const address = await server.listen({ port: 0, host: '127.0.0.1' })
  return { url: `${address}/jobs`, headers: {}, pid: process.pid, close: () => server.close() }
}

/** `sluice server` as anybody starts it, in a process of its own, with a key, an audit and a ceiling. */
export async function serveSluice(databaseUrl, { task, ceiling, checkout = ROOT }) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  await writeFile(join(folder, 'sluice.yaml'), `tasks: { ${task}: { exec: [/bin/true] } }\n`)
  const child = spawn(process.execPath, [join(checkout, 'dist/cli/main.js'), 'server', '--port', '0'], {
    cwd: folder,
    env: {
      ...process.env,
      DATABASE_URL: databaseUrl,
      SLUICE_MAX_ACTIVE: String(ceiling),
      SLUICE_LOG: 'warn',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const told = { key: undefined, address: undefined }
  for await (const line of createInterface({ input: child.stdout })) {
    told.key ??= line.match(/slk_[\w-]+/)?.[0]
    told.address ??= line.match(/http:\/\/[\d.]+:\d+/)?.[0]
    if (told.key !== undefined && told.address !== undefined) break
  }
  if (told.key === undefined || told.address === undefined) throw new Error('sluice server did not start')
  child.stdout.resume()
  return {
    url: `${told.address}/api/v1/jobs`,
    headers: { authorization: `Bearer ${told.key}` },
    pid: child.pid,
    async close() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}
