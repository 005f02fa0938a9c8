import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { model } from '../../dist/index.js'

const PROGRAM = fileURLToPath(new URL('../../test/support/programs/nvidia-smi.sh', import.meta.url))

/** GPUs that exist in a folder, shown to this process by a program `nvidia-smi`. */
export class DemoGpus {
  #folder
  #taken = 0

  constructor(root, gpus) {
    this.#folder = join(root, 'gpus')
    const bin = join(root, 'bin')
    mkdirSync(join(this.#folder, 'taken'), { recursive: true })
    mkdirSync(bin, { recursive: true })
    copyFileSync(PROGRAM, join(bin, 'nvidia-smi'))
    chmodSync(join(bin, 'nvidia-smi'), 0o755)
    const lines = gpus.map(({ uuid, name, totalMiB }, index) => [index, uuid, name, totalMiB, 400].join('|'))
    writeFileSync(join(this.#folder, 'gpus'), `${lines.join('\n')}\n`)
    process.env.PATH = `${bin}${delimiter}${process.env.PATH ?? ''}`
    process.env.FAKE_GPUS = this.#folder
  }

  /** A model that takes memory of the devices it is loaded on. */
  model(name, miB, loadMs) {
    return model({
      name,
      load: async ({ devices }) => {
        await new Promise((resolve) => setTimeout(resolve, loadMs))
        return devices.map((device) => {
          const taken = join(this.#folder, 'taken', device)
          mkdirSync(taken, { recursive: true })
          const file = join(taken, `${process.pid}-${++this.#taken}`)
          writeFileSync(file, String(miB))
          return file
        })
      },
      unload: (files) => {
        for (const file of files) rmSync(file, { force: true })
      },
    })
  }
}
