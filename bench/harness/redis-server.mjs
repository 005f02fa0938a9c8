import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { until } from './clock.mjs'
import { freePort } from './postgres-server.mjs'
import { giveTo, unprivilegedUser } from './unprivileged.mjs'

/**
 * Finds redis-server, installing Debian's package when there is none and this process may.
 * Answers `{ version }`, or `{ reason }` why there is no Redis here.
 */
export function findRedis() {
  const version = redisVersion()
  if (version !== null) return { version }
  if (process.getuid?.() !== 0)
    return { reason: 'redis-server is not installed, and only root can install it' }
  if (spawnSync('apt-get', ['--version']).status !== 0) {
    return { reason: 'redis-server is not installed, and this system has no apt-get' }
  }
  console.error('bench: installing redis-server from the distribution ...')
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const install = ['install', '-y', '--no-install-recommends', 'redis-server']
  let done = spawnSync('apt-get', install, { env: environment, encoding: 'utf8' })
  if (done.status !== 0) {
    spawnSync('apt-get', ['update'], { env: environment })
    done = spawnSync('apt-get', install, { env: environment, encoding: 'utf8' })
  }
  const installed = redisVersion()
  if (installed !== null) return { version: installed }
  return { reason: `"apt-get install redis-server" failed: ${(done.stderr ?? '').trim().split('\n').at(-1)}` }
}

function redisVersion() {
  const answer = spawnSync('redis-server', ['--version'], { encoding: 'utf8' })
  return answer.status === 0 ? (/v=(\S+)/.exec(answer.stdout)?.[1] ?? 'unknown') : null
}

/** An empty Redis with an append-only file and the given `appendfsync`, and how to stop it. */
export async function startRedis(scratch, appendfsync) {
  const user = unprivilegedUser()
  const folder = join(scratch, 'redis')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  giveTo(user, folder)
  const port = await freePort()
  const settings = { port, bind: '127.0.0.1', dir: folder, appendonly: 'yes', appendfsync, save: '' }
  const child = spawn(
    'redis-server',
    Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]),
    { ...user, stdio: 'ignore', detached: true },
  )
  await until(() => answers(port), { everyMs: 20, limitMs: 10_000, what: 'redis-server to answer' })
  return {
    host: '127.0.0.1',
    port,
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function answers(port) {
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, retryStrategy: () => null })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.ping()) === 'PONG'
  } catch {
    return false
  } finally {
    client.disconnect()
  }
}
