import { readdirSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** One file of the built dashboard. */
export interface PageFile {
  readonly type: string
  readonly body: Buffer
  /** The same, made smaller when it was built; `undefined` where that gains nothing. */
  readonly gzip: Buffer | undefined
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
}

/**
 * The built dashboard. A name is looked up in the list that was read when the server started: whatever an address says, no
 * other file of the machine is ever opened. Contents are read when they are first asked for, and kept.
 */
export class DashboardFiles {
  readonly #folder: URL
  readonly #names: ReadonlySet<string>
  readonly #read = new Map<string, PageFile>()

  constructor(folder: URL = builtFolder(import.meta.url)) {
    this.#folder = folder
    this.#names = new Set(namesIn(folder))
  }

  /** `undefined`: there is no such file, or nothing has been built. */
  find(name: string): PageFile | undefined {
    if (!this.#names.has(name)) return undefined
    const known = this.#read.get(name) ?? this.#load(name)
    this.#read.set(name, known)
    return known
  }

  #load(name: string): PageFile {
    const smaller = `${name}.gz`
    return {
      type: TYPES[extname(name)] ?? 'application/octet-stream',
      body: readFileSync(new URL(name, this.#folder)),
      gzip: this.#names.has(smaller) ? readFileSync(new URL(smaller, this.#folder)) : undefined,
    }
  }
}

/** Beside the built server; the sources, which tests run, mean the same folder. */
function builtFolder(from: string): URL {
  return new URL(extname(from) === '.ts' ? '../../../dist/dashboard/' : '../../dashboard/', from)
}

function namesIn(folder: URL): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) =>
      name.replaceAll('\\', '/'),
    )
  } catch (error) {
    // A program that was not built has no page, and is a server all the same.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new Error(`cannot read the dashboard in ${fileURLToPath(folder)}`, { cause: error })
  }
}
