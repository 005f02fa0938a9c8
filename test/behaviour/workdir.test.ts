import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { chmod, chown, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { BrokenWorker } from '../../src/worker/attempt.ts'
import { Workdirs } from '../../src/worker/workdir.ts'
import { Fixture } from '../support/processes.ts'

const isRoot = process.geteuid?.() === 0
const NOBODY = 65534
let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sluice-workdir-test-'))
})

afterEach(() => rm(root, { recursive: true, force: true }))

test('gives each attempt a folder of its own that only its user can enter', async () => {
  const workdirs = await Workdirs.open(root)

  const first = workdirs.create('42', 1)
  const again = workdirs.create('42', 1)

  expect(basename(first)).toMatch(/^42-1-[0-9a-f]{12}$/)
  expect(again).not.toBe(first)
  expect(statSync(first).mode & 0o777).toBe(0o700)
  expect(statSync(workdirs.path).mode & 0o777).toBe(0o700)
})

test('cannot be led outside by a job id', async () => {
  const workdirs = await Workdirs.open(root)

  expect(dirname(workdirs.create('../../etc', 1))).toBe(workdirs.path)
})

test('removes a folder with all it holds, and does not mind when it is gone', async () => {
  const workdirs = await Workdirs.open(root)
  const path = workdirs.create('1', 1)
  mkdirSync(join(path, 'deep/er'), { recursive: true })
  writeFileSync(join(path, 'deep/er/file'), 'x')

  await workdirs.remove(path)
  expect(readdirSync(workdirs.path)).toEqual([])
  await workdirs.remove(path)
})

test('removes folders made read-only, as an ordinary user, and nothing a link points to', async () => {
  const outside = mkdtempSync(join(root, 'outside-'))
  writeFileSync(join(outside, 'file'), 'x')
  const mine = join(root, 'mine')
  mkdirSync(mine, { mode: 0o700 })
  await chmod(root, 0o755)
  await chmod(outside, 0o755)
  if (isRoot) await chown(mine, NOBODY, NOBODY)

  await asOrdinaryUser(async () => {
    const workdirs = await Workdirs.open(mine)
    const path = workdirs.create('1', 1)
    mkdirSync(join(path, 'locked/inner'), { recursive: true })
    writeFileSync(join(path, 'locked/inner/file'), 'x')
    symlinkSync(outside, join(path, 'locked/link'))
    await chmod(join(path, 'locked/inner'), 0o000)
    await chmod(join(path, 'locked'), 0o500)

    await workdirs.remove(path)
    expect(readdirSync(workdirs.path)).toEqual([])
  })
  expect(existsSync(join(outside, 'file'))).toBe(true)
})

test('removes a folder into which a program still writes', async () => {
  const workdirs = await Workdirs.open(root)
  const path = workdirs.create('1', 1)
  const script = 'mkdir -p a; i=0; while :; do i=$((i+1)); echo x > a/$i; echo x > $i; done'
  const writer = spawn('sh', ['-c', script], { cwd: path, stdio: 'ignore' })
  try {
    await expect.poll(() => existsSync(join(path, 'a/20')), { timeout: 60_000, interval: 5 }).toBe(true)

    await workdirs.remove(path)
    expect(readdirSync(workdirs.path)).toEqual([])
  } finally {
    const exited = once(writer, 'exit')
    writer.kill('SIGKILL')
    await exited
  }
})

test('leaves nothing behind when it is closed', async () => {
  const workdirs = await Workdirs.open(root)
  writeFileSync(join(workdirs.create('1', 1), 'file'), 'x')

  await workdirs.close()
  expect(readdirSync(root)).toEqual([])
})

test('makes folders again after a cleaner took the one above', async () => {
  const workdirs = await Workdirs.open(root)
  await rm(workdirs.path, { recursive: true })

  expect(existsSync(workdirs.create('1', 1))).toBe(true)
})

test('removes at its start what killed workers left, and only that', async () => {
  const [dead, alive] = [new Fixture('workdir-owner.mjs', root), new Fixture('workdir-owner.mjs', root)]
  try {
    const [deadPath, alivePath] = [await dead.line(), await alive.line()]
    await dead.kill('SIGKILL')
    expect(existsSync(deadPath)).toBe(true)

    const workdirs = await Workdirs.open(root)

    expect(existsSync(dirname(deadPath))).toBe(false)
    expect(existsSync(join(alivePath, 'data'))).toBe(true)
    expect(readdirSync(root)).toHaveLength(2)
    await workdirs.close()
  } finally {
    await dead.kill()
    await alive.kill()
  }
})

test('removes what is certainly left behind and keeps what may belong to somebody', async () => {
  const [host, boot, namespace, pid, start, nonce] = basename((await Workdirs.open(root)).path).split('-')
  const name = (...parts: unknown[]) => parts.join('-')
  const other = '00000000'
  const reusedPid = name(host, boot, namespace, pid, Number(start) + 1, nonce)
  const beforeBoot = name(host, other, namespace, pid, start, nonce)
  const otherHost = name(other, boot, namespace, pid, Number(start) + 1, nonce)
  const otherContainer = name(host, boot, Number(namespace) + 1, pid, Number(start) + 1, nonce)
  for (const folder of [reusedPid, beforeBoot, otherHost, otherContainer, 'notes'])
    mkdirSync(join(root, folder))

  await Workdirs.open(root)

  const left = readdirSync(root)
  expect(left).toEqual(expect.arrayContaining([otherHost, otherContainer, 'notes']))
  expect(left).not.toContain(reusedPid)
  expect(left).not.toContain(beforeBoot)
})

test('shares a root with another worker of the same process', async () => {
  const [one, two] = [await Workdirs.open(root), await Workdirs.open(root)]
  const path = two.create('1', 1)

  await one.close()
  expect(existsSync(path)).toBe(true)
})

test('reports a broken worker when there is no place for folders', async () => {
  writeFileSync(join(root, 'file'), '')
  await expect(Workdirs.open(join(root, 'file/below'))).rejects.toBeInstanceOf(BrokenWorker)

  const workdirs = await Workdirs.open(join(root, 'fine'))
  renameSync(join(root, 'fine'), join(root, 'gone'))
  writeFileSync(join(root, 'fine'), '')
  expect(() => workdirs.create('1', 1)).toThrow(BrokenWorker)
})

test.skipIf(!isRoot)('refuses a root that belongs to another user', async () => {
  await chown(root, NOBODY, NOBODY)

  await expect(Workdirs.open(root)).rejects.toThrow(/belongs to user 65534; it must belong to user 0/)
})

test('refuses a root that is a link, which somebody else may have made', async () => {
  mkdirSync(join(root, 'elsewhere'), { mode: 0o700 })
  symlinkSync(join(root, 'elsewhere'), join(root, 'link'))

  await expect(Workdirs.open(join(root, 'link'))).rejects.toThrow(/it is a link or a file/)
  expect(readdirSync(join(root, 'elsewhere'))).toEqual([])
})

test('refuses a root that others can enter, and says what to do', async () => {
  await chmod(root, 0o755)

  await expect(Workdirs.open(root)).rejects.toThrow(`others can enter it (mode 0755`)
  await expect(Workdirs.open(root)).rejects.toThrow(`chmod 700 ${root}`)
})

test('refuses a root that many use, and does not say to close it to them', async () => {
  await chmod(root, 0o1777)

  const refused = await Workdirs.open(root).catch((error: Error) => error.message)
  expect(refused).toContain(`name a folder of its own, such as ${join(root, 'sluice-workdirs')}`)
  expect(refused).not.toContain('chmod')
})

test('looks at the root again after a cleaner took it', async () => {
  const workdirs = await Workdirs.open(join(root, 'own'))
  await rm(join(root, 'own'), { recursive: true })
  mkdirSync(join(root, 'elsewhere'), { mode: 0o700 })
  symlinkSync(join(root, 'elsewhere'), join(root, 'own'))

  expect(() => workdirs.create('1', 1)).toThrow(/it is a link or a file/)
})

/** Root may enter every folder, so it must not be root who tries. */
async function asOrdinaryUser(work: () => Promise<void>): Promise<void> {
  if (!isRoot) return work()
  process.setegid?.(NOBODY)
  process.seteuid?.(NOBODY)
  try {
    await work()
  } finally {
    process.seteuid?.(0)
    process.setegid?.(0)
  }
}
