import { existsSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SluiceError } from './errors.ts'

/**
 * The JavaScript file to start a process with.
 *
 * Next to the file that asks, as the compiler leaves it. When that file is
 * itself TypeScript (tests run the sources, and Node 20 cannot), the built one
 * under `dist/` is meant.
 *
 * @param entry Relative path without extension, for example `./child-main`.
 * @param from `import.meta.url` of the asking file.
 */
export function builtEntry(entry: string, from: string): string {
  const extension = extname(new URL(from).pathname)
  const path = fileURLToPath(new URL(entry + extension, from))
  if (extension !== '.ts') return path

  const source = path.lastIndexOf('/src/')
  const built = `${path.slice(0, source)}/dist/${path.slice(source + '/src/'.length, -extension.length)}.js`
  if (!existsSync(built)) {
    throw new SluiceError('INVALID_CONFIG', `${built} does not exist; run \`npm run build\` first`)
  }
  return built
}
