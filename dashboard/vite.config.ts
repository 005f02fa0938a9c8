import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

const root = fileURLToPath(new URL('.', import.meta.url))
const out = join(root, '../dist/dashboard')

/** Compressed JavaScript that the first page needs before it can show anything. */
const FIRST_LOAD_BYTES = 250_000
/** Below it a packet is a packet. */
const WORTH_COMPRESSING = 1400

/** Writes compressed copies beside the files, and fails the build when the first load has grown past its bound. */
function shipCompressed(): Plugin {
  return {
    name: 'ship-compressed',
    apply: 'build',
    writeBundle(_options, bundle) {
      const first = new Set<string>()
      const add = (name: string): void => {
        const chunk = bundle[name]
        if (first.has(name) || chunk?.type !== 'chunk') return
        first.add(name)
        for (const each of chunk.imports) add(each)
      }
      for (const chunk of Object.values(bundle))
        if (chunk.type === 'chunk' && chunk.isEntry) add(chunk.fileName)

      let bytes = 0
      for (const name of readdirSync(join(out, 'assets')).map((each) => `assets/${each}`)) {
        const body = readFileSync(join(out, name))
        const smaller = gzipSync(body, { level: 9 })
        if (first.has(name)) bytes += smaller.length
        if (body.length > WORTH_COMPRESSING) writeFileSync(join(out, `${name}.gz`), smaller)
      }
      const kB = (bytes / 1000).toFixed(1)
      if (bytes > FIRST_LOAD_BYTES)
        this.error(
          `the first load is ${kB} kB of compressed JavaScript, more than ${FIRST_LOAD_BYTES / 1000}`,
        )
      this.info(`first load: ${kB} kB of compressed JavaScript`)
    },
  }
}

export default defineConfig({
  root,
  plugins: [react(), shipCompressed()],
  build: {
    outDir: out,
    emptyOutDir: true,
    target: 'es2023',
    // The policy of the page allows no data: fonts or scripts, and what is a file can be kept by the browser.
    assetsInlineLimit: 0,
    // In kB, before compression. What counts is checked above.
    chunkSizeWarningLimit: 900,
    // Every browser that runs this knows modulepreload.
    modulePreload: { polyfill: false },
  },
  // `npx vite dashboard` during development: the page from here, everything else from a server on its usual port.
  server: { proxy: { '/api': 'http://127.0.0.1:8080', '/docs': 'http://127.0.0.1:8080' } },
})
