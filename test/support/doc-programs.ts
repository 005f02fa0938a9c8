import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const REPOSITORY = resolve(fileURLToPath(new URL('../..', import.meta.url)))

/**
 * A block of TypeScript in the documentation.
 *
 * Every block that begins with ```ts is a module of its own and must compile; with ```ts run it is also executed and
 * must exit with 0. A first line `// file: name.ts` gives it a name that other blocks of its page can import. A block
 * ```text output right behind a program is what that program prints.
 */
export interface DocProgram {
  readonly page: string
  readonly line: number
  readonly file: string
  readonly source: string
  readonly runnable: boolean
  readonly output: string | undefined
}

/** The TypeScript of README, guides and reference, in order. */
export async function docPrograms(): Promise<DocProgram[]> {
  const pages = existsSync(join(REPOSITORY, 'README.md')) ? ['README.md'] : []
  for (const folder of ['docs/guides', 'docs/reference']) {
    const names = await readdir(join(REPOSITORY, folder)).catch(() => [])
    pages.push(...names.filter((name) => name.endsWith('.md')).map((name) => `${folder}/${name}`))
  }
  const programs: DocProgram[] = []
  for (const page of pages) programs.push(...programsOf(page, await readFile(join(REPOSITORY, page), 'utf8')))
  return programs
}

export function programsOf(page: string, text: string): DocProgram[] {
  const programs: DocProgram[] = []
  for (const match of text.matchAll(
    /^```ts([^\n]*)\n([\s\S]*?)^```$(?:\n\n?```text output\n([\s\S]*?)^```$)?/gm,
  )) {
    const line = text.slice(0, match.index).split('\n').length
    const words = match[1]!.trim().split(/\s+/).filter(Boolean)
    const unknown = words.filter((word) => word !== 'run')
    if (unknown.length > 0) throw new Error(`${page}:${line}: "${unknown[0]}" means nothing after ts`)
    const named = /^\/\/ file: ([\w.-]+\.ts)\n/.exec(match[2]!)
    const file = named?.[1] ?? `line-${line}.ts`
    if (programs.some((other) => other.file === file)) {
      throw new Error(`${page}:${line}: a second block is named ${file}`)
    }
    programs.push({ page, line, file, source: match[2]!, runnable: words.includes('run'), output: match[3] })
  }
  return programs
}

/** Writes the programs below `folder`, one folder a page, and compiles them. Returns what the compiler has to say. */
export async function compile(folder: string, programs: readonly DocProgram[]): Promise<string> {
  for (const program of programs) {
    await mkdir(join(folder, pageFolder(program)), { recursive: true })
    await writeFile(join(folder, pageFolder(program), program.file), program.source)
  }
  const compilerOptions = { noEmit: false, outDir: 'out', rootDir: '.', noUnusedLocals: false }
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ extends: join(REPOSITORY, 'tsconfig.json'), compilerOptions, include: ['**/*.ts'] }),
  )
  const tsc = join(REPOSITORY, 'node_modules/typescript/lib/tsc.js')
  return new Promise((done) => {
    execFile(process.execPath, [tsc, '-p', folder], { cwd: folder }, (_, stdout, stderr) =>
      done(`${stdout}${stderr}`),
    )
  })
}

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export function run(
  folder: string,
  program: DocProgram,
  env: Readonly<Record<string, string>>,
): Promise<Ran> {
  const path = join(folder, 'out', pageFolder(program), program.file.replace(/\.ts$/, '.js'))
  return new Promise((done) => {
    const options = { cwd: folder, env: { ...process.env, ...env }, timeout: 25_000 }
    execFile(process.execPath, [path], options, (error, stdout, stderr) =>
      done({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
    )
  })
}

function pageFolder(program: DocProgram): string {
  return program.page.replaceAll(/[^\w-]+/g, '-')
}
