import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** A copy of the built program, with what a later release changes. Its `worker.mjs` runs as `programs/worker.mjs` does. */
export class Release {
  readonly #folder: string

  private constructor(folder: string) {
    this.#folder = folder
  }

  /** Copies this release, or a later one. */
  static async after(earlier?: Release): Promise<Release> {
    const release = new Release(await mkdtemp(join(tmpdir(), 'sluice-release-')))
    const from = earlier === undefined ? ROOT : earlier.#folder
    for (const name of ['dist', 'sql', 'package.json'])
      await cp(join(from, name), join(release.#folder, name), { recursive: true, filter: isNeeded })
    await cp(join(ROOT, 'test/support/programs/worker.mjs'), release.worker)
    await symlink(join(ROOT, 'node_modules'), join(release.#folder, 'node_modules'))
    return release
  }

  get worker(): string {
    return join(this.#folder, 'worker.mjs')
  }

  /** The files of a folder and those below it. */
  async list(folder: string): Promise<string[]> {
    const entries = await readdir(join(this.#folder, folder), { recursive: true, withFileTypes: true })
    return entries
      .filter((each) => each.isFile())
      .map((each) => join(each.parentPath, each.name).slice(this.#folder.length + 1))
  }

  read(path: string): Promise<string> {
    return readFile(join(this.#folder, path), 'utf8')
  }

  write(path: string, text: string): Promise<void> {
    return writeFile(join(this.#folder, path), text)
  }

  remove(path: string): Promise<void> {
    return rm(join(this.#folder, path))
  }

  async delete(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** Fails when there is nothing to replace: the release would be as the one before. */
export function replaced(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`found no "${from}" to replace`)
  return text.replaceAll(from, () => to)
}

/** No worker needs the dashboard, and nobody debugs a copy. */
function isNeeded(path: string): boolean {
  return !path.endsWith('.map') && !path.endsWith('.d.ts') && !path.includes(`${sep}dist${sep}dashboard`)
}
