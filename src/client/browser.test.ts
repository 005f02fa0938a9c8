import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const IMPORT = /^(?:import|export)\s+(?!type\b)(?:[^'"]*?\bfrom\s*)?'([^']+)'/gm

/** Everything a module needs when it runs, types left out. */
function needs(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found
  found.add(file)
  for (const [, name] of readFileSync(file, 'utf8').matchAll(IMPORT)) {
    if (name!.startsWith('.')) needs(resolve(dirname(file), name!), found)
    else found.add(name!)
  }
  return found
}

test('the client needs nothing that a browser does not have', () => {
  const found = [...needs(fileURLToPath(new URL('index.ts', import.meta.url)))]
  expect(found.filter((name) => !name.startsWith('/'))).toEqual(['typebox'])
  const folders = new Set(found.flatMap((name) => /\/src\/(\w+)\//.exec(name)?.[1] ?? []))
  expect([...folders].sort()).toEqual(['api', 'client', 'model'])
  for (const file of found.filter((name) => name.startsWith('/')))
    expect(readFileSync(file, 'utf8')).not.toMatch(/\b(?:Buffer|process)\.\w/)
})
